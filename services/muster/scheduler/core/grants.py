"""Who may hold a node or device: `released` to what lacks nothing else, `withheld` to those who asked for it."""

from muster.core import Draft
from muster.scheduler.core.fleet import DEVICE, NODE, DeviceRecord, NodeRecord
from muster.scheduler.core.remains import MOVES_MAX, Remains
from muster.scheduler.core.state import State
from muster.schemas.facts.node import Released, Withheld


def grants(state: State, remains: Remains) -> list[Draft]:
    """Answers to all nodes and devices whose grant waits for one; those that need none are forgotten."""
    books, drafts = state.books, list[Draft]()
    for kind, name in tuple(books.pending):
        if len(drafts) >= MOVES_MAX:
            remains.more = True
            break
        record = books.nodes.get(name) if kind == NODE else books.devices.get(name)
        answers = _answers(state, kind, name, record) if record is not None else []
        if answers:
            drafts += answers
        elif record is None or all(wish.answered for wish in record.wishes):
            del books.pending[kind, name]
    return drafts


def _answers(state: State, kind: str, name: str, record: NodeRecord | DeviceRecord) -> list[Draft]:
    books = state.books
    if books.wants_release(kind, name):
        return [Draft(kind, name, "released", Released(), (record.last_fact,) if record.last_fact else ())]
    open_wishes = [wish for wish in record.wishes if not wish.answered]
    if not open_wishes:
        return []
    holders = _holders(state, kind, name)
    return [
        Draft(
            kind,
            name,
            "withheld",
            Withheld(request_id=wish.request_id, forced=bool(holders), holders=holders),
            (wish.fact,),
        )
        for wish in open_wishes
        if wish.force or not holders
    ]


def _holders(state: State, kind: str, name: str) -> tuple[str, ...]:
    books, records = state.books, state.jobs.records
    place = books.place_of(name) if kind == DEVICE else (name, 0)
    node = books.nodes.get(place[0]) if place is not None else None
    if node is None:
        return ()
    return books.holders(kind, name, ((job_id, records[job_id].slots) for job_id in node.jobs))
