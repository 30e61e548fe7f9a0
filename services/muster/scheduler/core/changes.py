"""Answers to those who wish a queue to be different."""

from muster.core import Draft
from muster.scheduler.core.remains import MOVES_MAX
from muster.scheduler.core.state import State
from muster.schemas.facts.queue import QueueChanged, QueueChangeRefused, QueueSpec


def queue_changes(state: State) -> list[Draft]:
    """`changed` or `change-refused` for every wish, each judged as if those accepted before it stood."""
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
    return drafts
