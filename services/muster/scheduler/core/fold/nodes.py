"""Folds of facts about nodes and devices."""

from muster.core import Fact
from muster.core.folding import Folds
from muster.scheduler.core.fold.updates import note_node
from muster.scheduler.core.state import State
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)

FOLDS = Folds[State, None]()


@FOLDS.on("node", "joined", NodeJoined)
def _joined(state: State, fact: Fact, joined: NodeJoined) -> None:
    state.ledger.join(fact.subject_id, joined, fact=fact.id)
    note_node(state, fact.subject_id, at=fact.time)
    state.summary.is_stale = True


@FOLDS.on("node", "lost", NodeLost)
def _lost(state: State, fact: Fact, _: NodeLost) -> None:
    _set_lost(state, fact, lost=True)


@FOLDS.on("node", "returned", NodeReturned)
def _returned(state: State, fact: Fact, _: NodeReturned) -> None:
    _set_lost(state, fact, lost=False)


def _set_lost(state: State, fact: Fact, *, lost: bool) -> None:
    if not state.ledger.set_lost(fact.subject_id, lost, fact=fact.id):
        state.anomalies[f"{fact.name} of no node"] += 1
    state.summary.is_stale = True


@FOLDS.on("node", "left", NodeLeft)
def _left(state: State, fact: Fact, _: NodeLeft) -> None:
    if not state.ledger.leave(fact.subject_id, fact=fact.id):
        state.anomalies["left of no node"] += 1
    note_node(state, fact.subject_id, at=fact.time)
    state.summary.is_stale = True


@FOLDS.on(("node", "device"), "withhold-requested", WithholdRequested)
def _withhold_requested(state: State, fact: Fact, asked: WithholdRequested) -> None:
    if not state.grants.ask(fact.kind, fact.subject_id, asked, fact=fact.id, by=fact.writer, at=fact.time):
        state.anomalies["withhold requested twice"] += 1
    for job_id in state.holders.of(fact.kind, fact.subject_id):
        state.due.mark_dirty(job_id)  # its run may have ended because of the fault there
    state.summary.is_stale = True


@FOLDS.on(("node", "device"), "withhold-withdrawn", WithholdWithdrawn)
def _withhold_withdrawn(state: State, fact: Fact, withdrawn: WithholdWithdrawn) -> None:
    """Drop a request to drain. A withdrawal that crossed an answer changes nothing: the requester acts on the answer,
    or withdraws again.

    A node or device that left the cluster has no requests.
    """
    is_taken = state.grants.withdraw(
        fact.kind,
        fact.subject_id,
        withdrawn.request_id,
        after_withheld=withdrawn.after_withheld,
        fact=fact.id,
        seq=fact.seq,
    )
    if is_taken is None and state.nodes.is_there(fact.kind, fact.subject_id):
        state.anomalies["withdrawn of nothing"] += 1
    state.summary.is_stale = True


@FOLDS.on("attachment", "detached", DeviceDetached)
def _detached(state: State, _fact: Fact, detached: DeviceDetached) -> None:
    """Forget a drained device that no node ever showed; a device that a node shows goes with the node's description."""
    state.grants.detached(detached.device_uuid)


@FOLDS.on("node", ("cordon-forwarded", "drain-forwarded"), CordonRequested)
def _cordoned(state: State, fact: Fact, asked: CordonRequested) -> None:
    """Cordon the node. A new cordon replaces the old one: `cordon` on a draining node stops the drain."""
    cordon = Cordon(
        principal=asked.principal,
        reason=asked.reason,
        draining=fact.name == "drain-forwarded",
        since=fact.time,
        fact=fact.id,
    )
    state.grants.cordon(fact.subject_id, cordon, fact=fact.id, seq=fact.seq)
    state.summary.is_stale = True


@FOLDS.on("node", "resume-forwarded", CordonRequested)
def _resumed(state: State, fact: Fact, _: CordonRequested) -> None:
    if not state.grants.cordon(fact.subject_id, None, fact=fact.id, seq=fact.seq):
        state.anomalies["resumed what is not cordoned"] += 1
    state.summary.is_stale = True


@FOLDS.on(("node", "device"), "withheld", Withheld)
def _withheld(state: State, fact: Fact, withheld: Withheld) -> None:
    if not state.grants.answered(fact.kind, fact.subject_id, withheld.request_id, fact=fact.id):
        state.anomalies["withheld out of turn"] += 1


@FOLDS.on(("node", "device"), "released", Released)
def _released(state: State, fact: Fact, _: Released) -> None:
    if not state.grants.release(fact.kind, fact.subject_id, fact=fact.id, seq=fact.seq):
        state.anomalies["released out of turn"] += 1
    state.summary.is_stale = True
