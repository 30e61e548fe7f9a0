"""Who may hold a node or device: `released` to what lacks nothing else, `withheld` to those who asked for it."""

from muster.cluster.node_records import DeviceRecord, NodeRecord
from muster.cluster.withholds import planned
from muster.core import Draft, Instant
from muster.scheduler.core.remains import MOVES_MAX, Remains
from muster.scheduler.core.state import State
from muster.schemas.facts.node import Released, Withheld


def grants(state: State, now: Instant, remains: Remains) -> list[Draft]:
    """Answers to all nodes and devices whose grant waits for one; those that need none are forgotten."""
    pending, drafts = state.grants.pending, list[Draft]()
    pending.update(dict.fromkeys(state.later_requests.pop_due(now)))
    for kind, name in tuple(pending):
        if len(drafts) >= MOVES_MAX:
            remains.more = True
            break
        record = state.grants.record_of(kind, name)
        answers = _answers(state, kind, name, record, now) if record is not None else []
        if answers:
            drafts += answers
            continue
        if record is None or all(wish.answered or wish.from_at > now for wish in record.wishes):
            del pending[kind, name]
        if record is not None and record.wishes:
            state.later_requests.add(kind, name, (wish for wish in planned(record.wishes) if wish.from_at > now))
    due = state.later_requests.next_due
    if due is not None:
        remains.wait_until(due)
    return drafts


def _answers(state: State, kind: str, name: str, record: NodeRecord | DeviceRecord, now: Instant) -> list[Draft]:
    if state.grants.wants_release(kind, name):
        return [Draft(kind, name, "released", Released(), (record.last_fact,) if record.last_fact else ())]
    open_wishes = [wish for wish in record.wishes if not wish.answered and wish.from_at <= now]
    if not open_wishes:
        return []
    holders = state.ledger.holders(kind, name)
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
