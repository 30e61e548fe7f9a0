"""Jobs that were routed here and are not yet queued: jobs that can never run fail, the others are queued.

Requests to change queues are answered before, because a job may wait for its queue.
"""

from muster.core import Draft
from muster.quota.users import user_queue
from muster.scheduler.core.lifecycle.follow_ups import failed_draft, queued_draft
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.queue import QueueChanged, QueueChangeRefused, QueueSpec

REPLICAS_MAX = 4_096
"""Replicas of one gang: its `placed` fact must stay a message of bounded size."""

NO_SHARING = "none"
"""The value of `sharing` of a cluster that does not share GPUs."""

OF_NO_SHARING = "this cluster shares no GPU between jobs (sharing: none): ask for whole ones with gpus"


def refusal(state: State, record: JobRecord) -> tuple[Reason, str] | None:
    """Return why a job that just arrived can never run here; None if it may wait."""
    if record.job_class.replicas > REPLICAS_MAX:
        return Reason.TOO_LARGE, f"{record.job_class.replicas} replicas, at most {REPLICAS_MAX} are placed at once"
    if record.job_class.has_shares and state.status.described.sharing == NO_SHARING:
        return Reason.NO_SHARING, OF_NO_SHARING
    queues = state.queues.queues
    queue, asked = queues.get(record.queue), queues.get(record.job.spec.queue_name)
    if queue is None and (asked is None or record.queue not in state.arrivals.awaited):
        return Reason.UNKNOWN_QUEUE, f"there is no queue {record.queue}"
    for one in (queue, asked):
        if one is not None and one.spec.closed:
            return Reason.CLOSED_QUEUE, f"queue {one.name} takes no new jobs"
    return None


def refused_arrivals(state: State, requeue: Requeue) -> list[Draft]:
    """Return `failed` for arrived jobs that can never run here."""
    drafts = list[Draft]()
    for job_id in state.arrivals.jobs:
        record = state.jobs.records[job_id]
        refused = None if record.cancel_fact else refusal(state, record)
        if refused is not None:
            drafts.append(failed_draft(record, *refused))
            if len(drafts) >= DRAFTS_MAX:
                requeue.more = True
                break
    return drafts


def queued_arrivals(state: State, placed: set[str], requeue: Requeue) -> list[Draft]:
    """Return `queued` for arrived jobs that may wait and were not placed by this decision."""
    drafts = list[Draft]()
    for job_id in state.arrivals.jobs:
        if job_id in placed:
            continue
        record = state.jobs.records[job_id]
        if record.cancel_fact or record.queue in state.arrivals.awaited or refusal(state, record) is not None:
            continue
        if len(drafts) >= DRAFTS_MAX:
            requeue.more = True
            break
        drafts.append(queued_draft(record))
    return drafts


def queue_changes(state: State) -> list[Draft]:
    """Return `changed` or `change-refused` for every request, each checked against the requests accepted before it.

    Without requests, return `changed` for the queues of users whose first job arrived.
    """
    accepted: dict[str, QueueSpec] = {}
    drafts = []
    for request in tuple(state.queues.wishes.values())[:DRAFTS_MAX]:
        refused = state.queues.check(request.spec, accepted)
        if refused is None:
            accepted[request.spec.name] = request.spec
            payload: QueueChanged | QueueChangeRefused = QueueChanged(spec=request.spec)
        else:
            payload = QueueChangeRefused(field=refused.field, reason=refused.reason)
        name = "changed" if refused is None else "change-refused"
        drafts.append(Draft("queue", request.spec.name, name, payload, (request.fact,), request.trace))
    if not drafts:  # else the template itself may be about to change
        drafts += _queues_of_users(state)
    return drafts


def _queues_of_users(state: State) -> list[Draft]:
    drafts = list[Draft]()
    for name, waiting in tuple(state.arrivals.awaited.items()):
        waits = (state.jobs.records[job_id] for job_id in waiting if job_id in state.arrivals.jobs)
        first = next((record for record in waits if record.queue == name), None)
        above = state.queues.queues.get(first.job.spec.queue_name) if first is not None else None
        if first is None or above is None or above.spec.user_template is None or name in state.queues.queues:
            del state.arrivals.awaited[name]
            continue
        if len(drafts) >= DRAFTS_MAX:
            break
        if refusal(state, first) is None:
            payload = QueueChanged(spec=user_queue(above.spec, name))
            drafts.append(Draft("queue", name, "changed", payload, (first.last_fact,), first.job.trace))
    return drafts
