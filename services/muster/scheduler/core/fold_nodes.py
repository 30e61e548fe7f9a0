"""How facts about nodes and devices change what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.node import NodeJoined, Withheld, WithholdRequested


def _joined(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeJoined)
    state.books.join(fact.subject_id, fact.payload, fact=fact.id)
    state.note_node(fact.subject_id, at=fact.time)
    state.summary_stale = True


def _lost(state: State, fact: Fact) -> None:
    _set_lost(state, fact, lost=True)


def _returned(state: State, fact: Fact) -> None:
    _set_lost(state, fact, lost=False)


def _set_lost(state: State, fact: Fact, *, lost: bool) -> None:
    if not state.books.set_lost(fact.subject_id, lost, fact=fact.id):
        state.anomalies[f"{fact.name} of no node"] += 1
    state.summary_stale = True


def _left(state: State, fact: Fact) -> None:
    if not state.books.leave(fact.subject_id, fact=fact.id):
        state.anomalies["left of no node"] += 1
    state.note_node(fact.subject_id, at=fact.time)
    state.summary_stale = True


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    if not state.books.ask(fact.kind, fact.subject_id, fact.payload, fact=fact.id):
        state.anomalies["withhold requested twice"] += 1
    state.summary_stale = True


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    if not state.books.answered(fact.kind, fact.subject_id, fact.payload.request_id):
        state.anomalies["withheld out of turn"] += 1


def _released(state: State, fact: Fact) -> None:
    if not state.books.release(fact.kind, fact.subject_id, fact=fact.id, seq=fact.seq):
        state.anomalies["released out of turn"] += 1
    state.summary_stale = True


HANDLERS: dict[tuple[str, str], Handler] = {
    ("node", "joined"): _joined,
    ("node", "lost"): _lost,
    ("node", "returned"): _returned,
    ("node", "left"): _left,
    **{(kind, "withhold-requested"): _withhold_requested for kind in ("node", "device")},
    **{(kind, "withheld"): _withheld for kind in ("node", "device")},
    **{(kind, "released"): _released for kind in ("node", "device")},
}
