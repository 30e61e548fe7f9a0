"""How facts about nodes change what the upgrader believes: what is there, and who keeps jobs from it."""

from collections.abc import Callable

from muster.core import Fact
from muster.schemas.facts.cordons import Cordon, CordonRequested
from muster.schemas.facts.node import GrantState, NodeJoined, NodeState, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import ActionOutcome, CheckOutcome, ChecksReported, NodeActionEnded
from muster.schemas.facts.upgrade import CampaignSpec, Step
from muster.upgrader.core.campaigns import Turn
from muster.upgrader.core.fold_campaigns import note_node
from muster.upgrader.core.nodes import MINE
from muster.upgrader.core.state import State


def _joined(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeJoined)
    node = state.node(fact.subject_id)
    state.count_idle(node, fact.time)
    node.description, node.lost = fact.payload, False
    note_node(state, node, fact)


def _lost(state: State, fact: Fact) -> None:
    node = state.nodes.get(fact.subject_id)
    if node is not None:
        node.lost = fact.name == "lost"
        state.moves += bool(state.campaigns)


def _left(state: State, fact: Fact) -> None:
    """Its turns are over; if it comes again, it gets new ones."""
    node = state.nodes.get(fact.subject_id)
    if node is None:
        return
    state.count_idle(node, fact.time)
    node.description, node.lost = None, False
    node.drop_answered()
    state.strays.pop(node.name, None)
    for campaign in state.campaigns.values():
        campaign.drop(node.name)
    state.moves += bool(state.campaigns)
    state.forget_node(node.name)


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    asked, node = fact.payload, state.node(fact.subject_id)
    node.ask(asked, fact=fact.id, by=fact.writer)
    state.moves += bool(state.campaigns)
    if fact.writer != MINE:
        return
    campaign = state.campaigns.get(asked.request_id.partition(".")[0])
    turn = campaign.turns.get(node.name) if campaign is not None else None
    if campaign is None or turn is None or not asked.request_id.startswith(campaign.request_prefix):
        state.anomalies["withhold requested for no turn"] += 1
        return
    if turn.request_id != asked.request_id:
        turn.asks += 1
        turn.request_id, turn.is_withheld, turn.counted_at = asked.request_id, False, fact.time
    turn.from_at, turn.running = asked.from_at, asked.running
    turn.last_fact = fact.id


def _withdrawn(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdWithdrawn)
    node, said = state.nodes.get(fact.subject_id), fact.payload
    if node is None:
        return
    state.moves += bool(state.campaigns)
    turn = state.turn_asking(node.name, said.request_id)
    if turn is not None:
        state.count_idle(node, fact.time)
        turn.request_id, turn.is_withheld, turn.counted_at, turn.freed = "", False, 0, False
        turn.last_fact = fact.id
        campaign = state.campaigns[turn.campaign]
        if campaign.ended is not None:
            campaign.drop(node.name)
    node.withdraw(said.request_id, after_withheld=said.after_withheld)
    if not any(wish.by == MINE and wish.answered for wish in node.wishes):
        state.strays.pop(node.name, None)
    state.forget_node(node.name)


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    node = state.nodes.get(fact.subject_id)
    if node is None:
        return
    state.moves += bool(state.campaigns)
    turn = state.turn_asking(node.name, fact.payload.request_id)
    if node.wish(fact.payload.request_id) is not None or _is_ours(state, fact.payload.request_id):
        node.answer(fact.payload.request_id, fact=fact.id)
    if turn is None:
        state.strays[node.name] = None
    if turn is not None and not fact.payload.holders:
        turn.is_withheld, turn.last_fact = True, fact.id


def _is_ours(state: State, request_id: str) -> bool:
    return request_id.partition(".")[0] in state.campaigns


def _released(state: State, fact: Fact) -> None:
    node = state.nodes.get(fact.subject_id)
    if node is not None:
        node.drop_answered()
        state.moves += bool(state.campaigns)


def _cordoned(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, CordonRequested)
    node, asked = state.node(fact.subject_id), fact.payload
    node.cordon = Cordon(
        principal=asked.principal,
        reason=asked.reason,
        draining=fact.name == "drain-forwarded",
        since=fact.time,
        fact=fact.id,
    )
    state.moves += bool(state.campaigns)


def _resumed(state: State, fact: Fact) -> None:
    """A person wants the node used again; that frees one whose upgrade failed, too."""
    node = state.nodes.get(fact.subject_id)
    if node is None:
        return
    node.cordon = None
    state.count_idle(node, fact.time)
    for turn in state.turns_on(node.name):
        if turn.step is Step.FAILED and turn.request_id:
            turn.freed, turn.last_fact = True, fact.id
    state.moves += bool(state.campaigns)
    state.forget_node(node.name)


def _action_ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeActionEnded)
    for turn in state.turns_on(fact.subject_id):
        if turn.work_id and turn.work_id == fact.payload.request_id and turn.outcome is None:
            ended, wanted = fact.payload, _version_wanted(state.campaigns[turn.campaign].spec, turn)
            if ended.outcome is ActionOutcome.DONE and ended.version and wanted and ended.version != wanted:
                _settle(state, turn, fact, ActionOutcome.FAILED, f"it has version {ended.version}, not {wanted}")
            else:
                _settle(state, turn, fact, ended.outcome, ended.detail)


def _version_wanted(spec: CampaignSpec, turn: Turn) -> str:
    return spec.version if turn.step is Step.UPGRADING else spec.roll_back_to or turn.version_before


def _checks_reported(state: State, fact: Fact) -> None:
    """What failed ends the checks, and what could not run where the suite says so; else the last report does."""
    assert isinstance(fact.payload, ChecksReported)
    report = fact.payload
    for turn in state.turns_on(fact.subject_id):
        if not turn.work_id or turn.work_id != report.request_id or turn.outcome is not None:
            continue
        suite = state.config.suites.get(state.campaigns[turn.campaign].spec.suite)
        passes = (CheckOutcome.PASS, CheckOutcome.CANNOT_RUN) if suite is None or suite.cannot_run_passes else _PASS
        bad = [one for one in report.results if one.outcome not in passes]
        bad.sort(key=lambda one: one.outcome is not CheckOutcome.FAIL)
        if bad:
            said = "failed" if bad[0].outcome is CheckOutcome.FAIL else "could not run"
            detail = f"check {bad[0].check} {said}{': ' if bad[0].detail else ''}{bad[0].detail}"[:1024]
            _settle(state, turn, fact, ActionOutcome.FAILED, detail)
        elif report.is_last:
            _settle(state, turn, fact, ActionOutcome.DONE, "")


_PASS = (CheckOutcome.PASS,)


def _settle(state: State, turn: Turn, fact: Fact, outcome: ActionOutcome, detail: str) -> None:
    turn.outcome, turn.detail, turn.last_fact = outcome, detail, fact.id
    state.moves += 1


def load_node(state: State, name: str, stored: NodeState) -> None:
    """A node as a checkpoint says."""
    node = state.node(name)
    node.description, node.lost = stored.description, stored.lost


def load_grant(state: State, name: str, stored: GrantState) -> None:
    """Who keeps jobs from a node, as a checkpoint says."""
    if stored.wishes or stored.cordon is not None:
        node = state.node(name)
        node.wishes, node.cordon = stored.wishes, stored.cordon
        if any(wish.by == MINE and wish.answered for wish in stored.wishes):
            state.strays[name] = None


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("node", "joined"): _joined,
    ("node", "lost"): _lost,
    ("node", "returned"): _lost,
    ("node", "left"): _left,
    ("node", "withhold-requested"): _withhold_requested,
    ("node", "withhold-withdrawn"): _withdrawn,
    ("node", "withheld"): _withheld,
    ("node", "released"): _released,
    ("node", "cordon-forwarded"): _cordoned,
    ("node", "drain-forwarded"): _cordoned,
    ("node", "resume-forwarded"): _resumed,
    ("node", "action-ended"): _action_ended,
    ("node", "checks-reported"): _checks_reported,
}
