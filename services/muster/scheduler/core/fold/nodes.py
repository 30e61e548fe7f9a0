"""How facts about nodes and devices change what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core.fold.updates import Handler, note_node
from muster.scheduler.core.state import State
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    NodeJoined,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)


def _joined(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeJoined)
    state.ledger.join(fact.subject_id, fact.payload, fact=fact.id)
    note_node(state, fact.subject_id, at=fact.time)
    state.summary.is_stale = True


def _lost(state: State, fact: Fact) -> None:
    _set_lost(state, fact, lost=True)


def _returned(state: State, fact: Fact) -> None:
    _set_lost(state, fact, lost=False)


def _set_lost(state: State, fact: Fact, *, lost: bool) -> None:
    if not state.ledger.set_lost(fact.subject_id, lost, fact=fact.id):
        state.anomalies[f"{fact.name} of no node"] += 1
    state.summary.is_stale = True


def _left(state: State, fact: Fact) -> None:
    if not state.ledger.leave(fact.subject_id, fact=fact.id):
        state.anomalies["left of no node"] += 1
    note_node(state, fact.subject_id, at=fact.time)
    state.summary.is_stale = True


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    asked = fact.payload
    if not state.grants.ask(fact.kind, fact.subject_id, asked, fact=fact.id, by=fact.writer, at=fact.time):
        state.anomalies["withhold requested twice"] += 1
    for job_id in state.holders.of(fact.kind, fact.subject_id):
        state.due.mark_dirty(job_id)  # it may have ended for what is wrong there
    state.summary.is_stale = True


def _withhold_withdrawn(state: State, fact: Fact) -> None:
    """One that crossed an answer changes nothing: who asked acts on the answer, or withdraws again.

    What is gone has forgotten who asked.
    """
    payload = fact.payload
    assert isinstance(payload, WithholdWithdrawn)
    is_taken = state.grants.withdraw(
        fact.kind,
        fact.subject_id,
        payload.request_id,
        after_withheld=payload.after_withheld,
        fact=fact.id,
        seq=fact.seq,
    )
    if is_taken is None and state.nodes.is_there(fact.kind, fact.subject_id):
        state.anomalies["withdrawn of nothing"] += 1
    state.summary.is_stale = True


def _detached(state: State, fact: Fact) -> None:
    """A device that no node ever showed may have been withheld; one that a node shows goes with its description."""
    assert isinstance(fact.payload, DeviceDetached)
    state.grants.detached(fact.payload.device_uuid)


def _cordoned(state: State, fact: Fact) -> None:
    """A person closes the node. Asked again it is so from then on: who cordons what is drained stops the draining."""
    assert isinstance(fact.payload, CordonRequested)
    cordon = Cordon(
        principal=fact.payload.principal,
        reason=fact.payload.reason,
        draining=fact.name == "drain-forwarded",
        since=fact.time,
        fact=fact.id,
    )
    state.grants.cordon(fact.subject_id, cordon, fact=fact.id, seq=fact.seq)
    state.summary.is_stale = True


def _resumed(state: State, fact: Fact) -> None:
    if not state.grants.cordon(fact.subject_id, None, fact=fact.id, seq=fact.seq):
        state.anomalies["resumed what is not cordoned"] += 1
    state.summary.is_stale = True


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    if not state.grants.answered(fact.kind, fact.subject_id, fact.payload.request_id, fact=fact.id):
        state.anomalies["withheld out of turn"] += 1


def _released(state: State, fact: Fact) -> None:
    if not state.grants.release(fact.kind, fact.subject_id, fact=fact.id, seq=fact.seq):
        state.anomalies["released out of turn"] += 1
    state.summary.is_stale = True


HANDLERS: dict[tuple[str, str], Handler] = {
    ("node", "joined"): _joined,
    ("node", "lost"): _lost,
    ("node", "returned"): _returned,
    ("node", "left"): _left,
    **{(kind, "withhold-requested"): _withhold_requested for kind in ("node", "device")},
    **{(kind, "withhold-withdrawn"): _withhold_withdrawn for kind in ("node", "device")},
    ("node", "cordon-forwarded"): _cordoned,
    ("node", "drain-forwarded"): _cordoned,
    ("node", "resume-forwarded"): _resumed,
    ("attachment", "detached"): _detached,
    **{(kind, "withheld"): _withheld for kind in ("node", "device")},
    **{(kind, "released"): _released for kind in ("node", "device")},
}
