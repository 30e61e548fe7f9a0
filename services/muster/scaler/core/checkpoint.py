"""Checkpoints: folds all parts, which come in any order, and writes the scaler's own."""

from collections.abc import Iterator, Mapping, Sequence

from muster.cluster.node_records import NODE
from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.scaler.core import limits
from muster.scaler.core.choices import EndedChoice, OpenChoice, Outcome, is_choice
from muster.scaler.core.fabrics import Attachment
from muster.scaler.core.fold_choices import lift, mark_dirty
from muster.scaler.core.fold_cluster import apply_hold, note_node
from muster.scaler.core.jobs import WAITING
from muster.scaler.core.state import State
from muster.schemas.devices import RequestPhase
from muster.schemas.facts.composability import RequestState
from muster.schemas.facts.device import AttachmentState
from muster.schemas.facts.fabric import FabricState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.facts.queue import QueueState
from muster.schemas.facts.scale import HeardSignal, IdleSince, Refused, ScaleChosen, ScalerState, ScaleState
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None]()


@FOLDS.on("queue", STATE_NAME, QueueState)
def _load_queue(state: State, _fact: Fact, stored: QueueState) -> None:
    state.queues.load(stored)


@FOLDS.on(("node", "device"), STATE_NAME, GrantState)
def _load_grant(state: State, fact: Fact, stored: GrantState) -> None:
    state.cluster.grants.load(fact.kind, fact.subject_id, stored)
    node = state.cluster.nodes.node_of(fact.kind, fact.subject_id)
    if node:
        state.cluster.mark(node)
    if fact.kind == NODE and stored.wishes:
        state.choices.withheld[fact.subject_id] = None


@FOLDS.on("node", STATE_NAME, NodeState)
def _load_node(state: State, fact: Fact, stored: NodeState) -> None:
    state.cluster.mark(fact.subject_id)
    state.cluster.ledger.load_node(fact.subject_id, stored.description, lost=stored.lost, fact=stored.last_fact)
    note_node(state, fact.subject_id)


@FOLDS.on("job", STATE_NAME, JobState)
def _load_job(state: State, fact: Fact, stored: JobState) -> None:
    if stored.phase.is_terminal or stored.job.id in state.jobs.records:
        return
    record = state.jobs.add(stored.job, queue=stored.queue or stored.job.spec.queue_name, routed_seq=stored.routed_seq)
    record.phase, record.queued_at = stored.phase, stored.queued_at
    record.cancelled, record.held = stored.cancel_requested, stored.held is not None
    if record.phase in WAITING:
        record.reason, record.detail = stored.reason, stored.detail
        record.reason_fact, record.reason_at = stored.last_fact, stored.explained_at
        record.awaits_preemption = stored.reserved is not None and bool(stored.reserved.victims)
        state.demand.put(record)
        for choice in state.choices.of_job.get(record.id, {}).values():
            lift(state, choice)
        return
    apply_hold(state, record, fact, at=0)


@FOLDS.on("attachment", STATE_NAME, AttachmentState)
def _load_attachment(state: State, fact: Fact, stored: AttachmentState) -> None:
    if stored.phase.is_over or not stored.said:
        return
    requested = stored.requested
    attachment = Attachment(fact.subject_id, requested, requested.node, stored.phase, stored.device_uuid, stored.since)
    mark_dirty(state, attachment)
    state.attachments.put(attachment)
    state.find_node(attachment.device_uuid)


@FOLDS.on("fabric", STATE_NAME, FabricState)
def _load_fabric(state: State, fact: Fact, stored: FabricState) -> None:
    state.pool.survey(fact.subject_id, stored.pool.values())
    if stored.retry_at:
        state.pool.open_breaker(fact.subject_id, Instant(stored.retry_at))


@FOLDS.on("composability", STATE_NAME, RequestState)
def _load_request(state: State, fact: Fact, stored: RequestState) -> None:
    """Keep the outcome of a choice's request; the choice may be loaded later, and an ended one is forgotten."""
    if stored.phase in (RequestPhase.REFUSED, RequestPhase.ENDED) and is_choice(fact.subject_id):
        failed = stored.phase is RequestPhase.REFUSED or stored.failed
        reason = f"{stored.field}: {stored.error}" if stored.field else stored.error
        state.choices.outcomes[fact.subject_id] = Outcome(failed, reason, stored.last_fact)
        state.choices.mark_dirty(fact.subject_id)


@FOLDS.on("scale", STATE_NAME, ScaleState)
def _load_choice(state: State, fact: Fact, stored: ScaleState) -> None:
    choice = OpenChoice(
        fact.subject_id,
        stored.name,
        stored.chosen,
        Instant(stored.chosen_at),
        stored.fact,
        stored.trace,
        stored.withheld,
    )
    if stored.ended is not None:
        state.choices.ended.append(EndedChoice(choice, stored.ended, Instant(stored.ended_at)))
        return
    state.choices.add(choice)
    if stored.failure_fact:
        state.choices.given_up[fact.subject_id] = Outcome(failed=True, reason=stored.failure, fact=stored.failure_fact)
    lift(state, choice)


@FOLDS.on("scaler", STATE_NAME, ScalerState)
def _load_scaler(state: State, _fact: Fact, stored: ScalerState) -> None:
    """Load one part of the state; parts come in any order, and agree in all fields except lists."""
    state.choices.chosen = stored.chosen
    state.changes.supplied_at, state.changes.freed_at = Instant(stored.supplied_at), Instant(stored.freed_at)
    for known, entries in (
        (state.cooldowns.moved_at, stored.moved_at),
        (state.cooldowns.failed_at, stored.failed_at),
        (state.jobs.served_at, stored.served_at),
    ):
        known.update({entry.name: Instant(entry.at) for entry in entries})
    state.refused.update({entry.name: entry for entry in stored.refused})
    state.signals.load(stored.signals)
    state.cluster.idle.load(devices=stored.idle_devices, nodes=stored.idle_nodes, low=stored.low_nodes)


def states(state: State) -> Iterator[Draft]:
    """Yield the scaler's own part of a checkpoint."""
    for one in state.choices.ended:
        chosen = one.choice.chosen.model_copy(update={"parts": (), "places": ()})
        yield _choice(one.choice, chosen, ended=one.ended, ended_at=one.ended_at)
    for choice in state.choices.in_order():
        given_up = state.choices.given_up.get(choice.id)
        failure = (given_up.reason, given_up.fact) if given_up is not None else ("", "")
        yield _choice(choice, choice.chosen, failure=failure[0], failure_fact=failure[1])
    for number, part in enumerate(_parts(state), 1):
        yield Draft("scaler", "scaler" if number == 1 else f"scaler-{number}", STATE_NAME, part)


def _choice(choice: OpenChoice, chosen: ScaleChosen, **rest: object) -> Draft:
    payload = ScaleState.model_validate(
        {
            "name": choice.name,
            "chosen": chosen,
            "chosen_at": choice.chosen_at,
            "fact": choice.fact,
            "withheld": choice.withheld,
            "trace": choice.trace,
            **rest,
        }
    )
    return Draft("scale", choice.id, STATE_NAME, payload, trace=choice.trace)


def _parts(state: State) -> Iterator[ScalerState]:
    """Yield the lists that grow with the cluster and the demand, in blocks; the first part may have none."""
    rest = {
        "chosen": state.choices.chosen,
        "supplied_at": state.changes.supplied_at,
        "freed_at": state.changes.freed_at,
    }
    refused = list(state.refused.values())
    shown = max(0, len(refused) - limits.REFUSED_SHOWN)
    mute = [one.model_copy(update={"reason": ""}) for one in refused[:shown]]
    blocks: list[tuple[str, Sequence[IdleSince | HeardSignal | Refused], int]] = [
        ("idle_devices", state.cluster.idle.stored_devices(), limits.STATE_ENTRIES_MAX),
        ("idle_nodes", state.cluster.idle.stored_nodes(), limits.STATE_ENTRIES_MAX),
        ("low_nodes", state.cluster.idle.stored_low(), limits.STATE_ENTRIES_MAX),
        ("moved_at", _since(state.cooldowns.moved_at), limits.STATE_ENTRIES_MAX),
        ("failed_at", _since(state.cooldowns.failed_at), limits.STATE_ENTRIES_MAX),
        ("served_at", _since(state.jobs.served_at), limits.STATE_ENTRIES_MAX),
        ("refused", mute, limits.STATE_ENTRIES_MAX),
        ("refused", refused[shown:], limits.STATE_TEXTS_MAX),
        ("signals", tuple(state.signals.heard.values()), limits.STATE_TEXTS_MAX),
    ]
    part, room = dict[str, tuple[object, ...]](), 1.0
    for field, entries, most in blocks:
        for at in range(0, len(entries), most):
            block = tuple(entries[at : at + most])
            if room < len(block) / most or field in part:
                yield ScalerState.model_validate(rest | part)
                part, room = {}, 1.0
            part[field], room = block, room - len(block) / most
    yield ScalerState.model_validate(rest | part)


def _since(moments: Mapping[str, Instant]) -> tuple[IdleSince, ...]:
    return tuple(IdleSince(name=name, at=at) for name, at in moments.items())
