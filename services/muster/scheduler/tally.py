"""Live jobs counted by team and by queue, kept up to date from the jobs that changed. Pure.

Proposals of a decision are not counted: a job holds what its queue counts for it from folded facts.
"""

from collections import Counter
from collections.abc import Iterable

from muster.core import Fact
from muster.quota.amounts import Amounts
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.queue import GPU
from muster.schemas.job import Phase

WAITING, HELD, PLACED, RUNNING, STOPPING = STATES = ("waiting", "held", "placed", "running", "stopping")
"""States of live jobs; a `held` job waits and must not be placed."""

_STATES = {Phase.PLACED: PLACED, Phase.RUNNING: RUNNING, Phase.STOPPING: STOPPING}
_Standing = tuple[str, str, str, Amounts, int]
"""Team, queue, state, amounts held, and the time since which the job waits."""


class Tally:
    """Counts of live jobs, and the GPUs that they hold."""

    def __init__(self) -> None:
        self.by_team: Counter[tuple[str, str]] = Counter()
        """Jobs by team and state."""
        self.by_queue: Counter[tuple[str, str]] = Counter()
        """Jobs by queue and state."""
        self.team_milli: Counter[str] = Counter()
        self.queue_milli: Counter[str] = Counter()
        """GPUs held by the queue's own jobs, in thousandths."""
        self.model_milli: Counter[str] = Counter()
        """GPUs held, by resource (`gpu_milli:<model>`), in thousandths."""
        self.waiting: dict[str, dict[str, int]] = {}
        """By queue, the time since which each of its jobs waits, oldest first."""
        self._of: dict[str, _Standing] = {}

    def see(self, job_id: str, record: JobRecord | None) -> None:
        """Count the job as it is now; None removes a job that was forgotten."""
        was, now = self._of.get(job_id), _standing(record)
        if was == now:
            return
        is_held_alike = was is not None and now is not None and was[3] is now[3] and was[:2] == now[:2]
        if was is not None:
            self._count(was, -1, is_held_too=not is_held_alike)
            self._left(job_id, was)
        if now is None:
            self._of.pop(job_id, None)
            return
        self._of[job_id] = now
        self._count(now, 1, is_held_too=not is_held_alike)
        if now[2] == WAITING:
            self.waiting.setdefault(now[1], {})[job_id] = now[4]

    def see_all(self, records: Iterable[JobRecord]) -> None:
        """Count all jobs into an empty tally, in the order in which they began to wait."""
        for record in sorted(records, key=lambda one: one.queued_at):
            self.see(record.id, record)

    def oldest_wait(self, queue: str) -> int:
        """Return when the queue's oldest waiting job began to wait, in nanoseconds; 0 if none waits."""
        return next(iter(self.waiting.get(queue, {}).values()), 0)

    def _count(self, standing: _Standing, sign: int, *, is_held_too: bool) -> None:
        team, queue, state, held, _ = standing
        self.by_team[team, state] += sign
        self.by_queue[queue, state] += sign
        if not is_held_too:
            return
        for resource, amount in held.items():
            if resource == GPU:
                self.team_milli[team] += sign * amount
                self.queue_milli[queue] += sign * amount
            elif resource.startswith(GPU):
                self.model_milli[resource] += sign * amount

    def _left(self, job_id: str, was: _Standing) -> None:
        if was[2] == WAITING:
            of_queue = self.waiting[was[1]]
            of_queue.pop(job_id, None)
            if not of_queue:
                del self.waiting[was[1]]


def changed_by(facts: Iterable[Fact], state: State) -> Iterable[str]:
    """Return the jobs whose counts these facts may have changed; `state` has folded the facts."""
    changed = dict[str, None]()
    is_queue_changed = False
    for fact in facts:
        if fact.kind == "job":
            changed[fact.subject_id] = None
        elif fact.kind == "node" and (node := state.nodes.get(fact.subject_id)) is not None:
            changed |= dict.fromkeys(node.jobs)  # with another GPU model the jobs hold another resource
        is_queue_changed = is_queue_changed or fact.kind == "queue"
    if is_queue_changed:  # jobs that just arrived may wait in another queue now
        changed |= state.arrivals.jobs
    return changed


def _standing(record: JobRecord | None) -> _Standing | None:
    if record is None or record.phase.is_terminal:
        return None
    state = _STATES.get(record.phase) or (HELD if record.held is not None else WAITING)
    since = (record.queued_at or record.job.submitted_at) if state == WAITING else 0
    return record.job.spec.team, record.queue, state, record.counted, since
