"""Jobs that were routed here and are not yet queued: those that can never run are told so, the others wait."""

from muster.core import Draft
from muster.scheduler.core import follow
from muster.scheduler.core.remains import MOVES_MAX, Remains
from muster.scheduler.core.state import State


def refused(state: State, remains: Remains) -> list[Draft]:
    """`failed` for those that can never run here."""
    drafts = list[Draft]()
    for job_id in state.arrivals:
        record = state.jobs.records[job_id]
        refusal = None if record.cancel_fact else state.refusal(record)
        if refusal is not None:
            drafts.append(follow.failed(record, *refusal))
            if len(drafts) >= MOVES_MAX:
                remains.more = True
                break
    return drafts


def queued(state: State, placed: set[str], remains: Remains) -> list[Draft]:
    """`queued` for those that may wait and were not placed by this decision."""
    drafts = list[Draft]()
    for job_id in state.arrivals:
        if job_id in placed:
            continue
        record = state.jobs.records[job_id]
        if record.cancel_fact or record.queue in state.awaited or state.refusal(record) is not None:
            continue
        if len(drafts) >= MOVES_MAX:
            remains.more = True
            break
        drafts.append(follow.queued(record))
    return drafts
