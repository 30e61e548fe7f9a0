"""Answers to those who wish a queue to be different, and the queues of users that have to be made."""

from muster.core import Draft
from muster.quota.users import user_queue
from muster.scheduler.core.remains import MOVES_MAX
from muster.scheduler.core.state import State
from muster.schemas.facts.queue import QueueChanged, QueueChangeRefused, QueueSpec


def queue_changes(state: State) -> list[Draft]:
    """`changed` or `change-refused` for every wish, each judged as if those accepted before it stood.

    And `changed` for the queues of users whose first job came.
    """
    accepted: dict[str, QueueSpec] = {}
    drafts = []
    for wish in tuple(state.queues.wishes.values())[:MOVES_MAX]:
        refusal = state.queues.check(wish.spec, accepted)
        if refusal is None:
            accepted[wish.spec.name] = wish.spec
            payload: QueueChanged | QueueChangeRefused = QueueChanged(spec=wish.spec)
        else:
            payload = QueueChangeRefused(field=refusal.field, reason=refusal.reason)
        name = "changed" if refusal is None else "change-refused"
        drafts.append(Draft("queue", wish.spec.name, name, payload, (wish.fact,), wish.trace))
    if not drafts:  # else the template itself may be about to change
        drafts += _queues_of_users(state)
    return drafts


def _queues_of_users(state: State) -> list[Draft]:
    drafts = list[Draft]()
    for name, waiting in tuple(state.awaited.items()):
        waits = (state.jobs.records[job_id] for job_id in waiting if job_id in state.arrivals)
        first = next((record for record in waits if record.queue == name), None)
        above = state.queues.queues.get(first.job.spec.queue_name) if first is not None else None
        if first is None or above is None or above.spec.user_template is None or name in state.queues.queues:
            del state.awaited[name]
            continue
        if len(drafts) >= MOVES_MAX:
            break
        if state.refusal(first) is None:
            payload = QueueChanged(spec=user_queue(above.spec, name))
            drafts.append(Draft("queue", name, "changed", payload, (first.last_fact,), first.job.trace))
    return drafts
