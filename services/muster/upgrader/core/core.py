"""The upgrader's core: fold the log, decide which node is taken, and what is done to it.

Facts that fit no state are counted.
"""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant, after
from muster.core.folding import Folds
from muster.schemas.facts.node import WithholdWithdrawn
from muster.schemas.facts.upgrade import CampaignState, NodeTurnsState, PendingCampaignChange, TurnState
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core import fold_campaigns, fold_cluster, limits
from muster.upgrader.core.campaigns import answer_requests, course
from muster.upgrader.core.config import UpgradeConfig
from muster.upgrader.core.state import MINE, Campaign, State, Turn
from muster.upgrader.core.steps import due_at, give_back, next_step
from muster.upgrader.core.turns import changes, planned

FOLDS = Folds[State, None](fold_cluster.FOLDS, fold_campaigns.FOLDS)


@FOLDS.on("node", STATE_NAME, NodeTurnsState)
def _load_turns(state: State, fact: Fact, stored: NodeTurnsState) -> None:
    """Restore a turn; it is kept until its campaign is restored."""
    for turn in stored.turns:
        campaign, found = state.campaigns.get(turn.campaign), Turn.restored(turn, node=fact.subject_id)
        if campaign is not None:
            campaign.put(found)
        else:
            state.early.setdefault(turn.campaign, []).append(found)


def states(state: State) -> Iterator[Draft]:
    """Yield campaigns, open requests, and turns by node."""
    asked: dict[str, tuple[PendingCampaignChange, ...]] = {}
    for request in state.wishes.values():
        asked[request.name] = (*asked.get(request.name, ()), request)
    for campaign in state.campaigns.values():
        stored = campaign.as_body(CampaignState)
        stored.wishes = asked.pop(campaign.name, ())
        yield Draft("campaign", campaign.name, STATE_NAME, stored, trace=campaign.trace)
    for name, requests in asked.items():
        yield Draft("campaign", name, STATE_NAME, CampaignState(wishes=requests))
    for node in sorted({name for campaign in state.campaigns.values() for name in campaign.turns}):
        turns = tuple(turn.as_body(TurnState) for turn in state.turns_on(node))
        yield Draft("node", node, STATE_NAME, NodeTurnsState(turns=turns))


@FOLDS.on("campaign", STATE_NAME, CampaignState)
def _load_campaign(state: State, fact: Fact, stored: CampaignState) -> None:
    state.wishes.update({request.fact: request for request in stored.wishes})
    if stored.spec is None:
        return  # it was only asked for
    campaign = Campaign.restored(stored, name=fact.subject_id)
    for turn in state.early.pop(fact.subject_id, ()):
        campaign.put(turn)
    state.campaigns[fact.subject_id] = campaign


LATE = "it was given after it had been asked for no longer"


class UpgraderCore:
    """The upgrader's core: the only writer of campaigns of one cluster. Without one it only folds who holds which node.

    Its memory of the last decision is a cache: turns are planned again at most every `REPLAN_S`.
    """

    def __init__(self, config: UpgradeConfig) -> None:
        self.state = State(config)
        self._moves = -1
        self._said: list[Draft] = []
        self._wake: Instant | None = None
        self._planned_moves = -1
        self._planned_courses = 0
        self._planned_at = Instant(0)
        self._turns: list[Draft] = []
        self._turn_at: Instant | None = None

    def apply(self, fact: Fact) -> None:
        """Fold one fact; facts that fit no state are counted in `state.anomalies`."""
        FOLDS.apply(self.state, fact)
        if fact.name == STATE_NAME:
            self.state.moves += 1

    def decide(self, now: Instant) -> list[Draft]:
        """Return the missing facts; the same until something is folded, or time brings more."""
        state = self.state
        if state.moves == self._moves and (self._wake is None or now < self._wake):
            return list(self._said)
        self._moves = state.moves
        drafts = [*answer_requests(state), *self._given_back()]
        drafts += self._steps(now)
        drafts += self._planning(now)
        self._said = drafts[: limits.DRAFTS_MAX]
        self._wake = now if len(drafts) > limits.DRAFTS_MAX else self._next(now)
        return list(self._said)

    def next_wakeup(self) -> Instant | None:
        """Return when a turn comes, turns are planned again, or an answer is overdue."""
        if self.state.moves != self._moves and self.state.live:
            soonest = after(self._planned_at, limits.REPLAN_S)
            return soonest if self._wake is None else min(self._wake, soonest)
        return self._wake

    def snapshot(self) -> Iterator[Draft]:
        """Yield campaigns that continue or wait for a person, and the turns of their nodes."""
        return states(self.state)

    def _steps(self, now: Instant) -> Iterator[Draft]:
        """Return what due turns need, withdrawals for failed nodes that a person freed, and ends of campaigns."""
        state = self.state
        for campaign in state.campaigns.values():
            halted = campaign.ended is None and (not campaign.goes_on or bool(state.braked))
            for name in campaign.open:
                turn = campaign.turns[name]
                drafts = next_step(state, campaign, turn, now)
                if halted and not turn.work_id:
                    drafts = give_back(campaign, turn, f"campaign {campaign.name} does not go on")
                yield from drafts
            for turn in campaign.turns.values():
                if turn.freed:
                    yield from next_step(state, campaign, turn, now)
            if campaign.ended is None:
                yield from course(state, campaign, now)

    def _planning(self, now: Instant) -> list[Draft]:
        """Return what coming turns need; planned again after a change or a turn, but not too often."""
        state = self.state
        stale = state.moves != self._planned_moves or (self._turn_at is not None and now >= self._turn_at)
        rested = state.courses != self._planned_courses or now >= after(self._planned_at, limits.REPLAN_S)
        if stale and rested:
            self._planned_moves, self._planned_courses, self._planned_at = state.moves, state.courses, now
            taken, to_come = set[str](), list[Instant]()
            self._turns = []
            for campaign in state.live:
                starts = planned(state, campaign, now)
                self._turns += changes(state, campaign, starts, now, taken=taken)
                to_come += [start for start in starts.values() if start > now]
            self._turn_at = min(to_come, default=None)
        return self._turns if state.moves == self._planned_moves else []

    def _given_back(self) -> Iterator[Draft]:
        """Return withdrawals for nodes that were granted for a request that had been withdrawn."""
        state = self.state
        for name in state.strays:
            grant = state.grants.get(name)
            for request in grant.wishes if grant is not None else ():
                if request.by == MINE and request.answered and state.turn_asking(name, request.request_id) is None:
                    back = WithholdWithdrawn(request_id=request.request_id, reason=LATE, after_withheld=True)
                    yield Draft("node", name, "withhold-withdrawn", back, (request.fact,) if request.fact else ())

    def _next(self, now: Instant) -> Instant | None:
        """Return when `decide` could answer differently by time alone."""
        state = self.state
        moments = [due_at(state, campaign, campaign.turns[name]) for campaign in state.live for name in campaign.open]
        if state.live:
            if state.moves != self._planned_moves:
                moments.append(max(now, after(self._planned_at, limits.REPLAN_S)))
            if self._turn_at is not None:  # one that came while turns are not planned anew waits until they are
                moments.append(max(self._turn_at, after(self._planned_at, limits.REPLAN_S)))
        return min((moment for moment in moments if moment is not None), default=None)
