"""Requests about a job other than its cancellation (hold, release, priority, requeue, edit), and their answers."""

from collections.abc import Iterable
from enum import StrEnum

from muster.schemas.base import Payload, Text
from muster.schemas.job import Priority, RunTime, SliceTime


class JobHoldRequested(Payload):
    """`hold-requested`, `release-requested`, `requeue-requested` and all three as forwarded: the job shall not be
    started, may be started again, or its attempt shall be stopped and the job queued again.
    """

    principal: str
    reason: Text = ""


class JobPriorityRequested(Payload):
    """`priority-requested` and `priority-forwarded`: the job shall have this priority."""

    principal: str
    priority: Priority
    reason: Text = ""


class JobHeld(Payload):
    """`held`: the job is not placed until `unheld`; its reservation is released.

    It keeps its position in the queue, also after `unheld`. principal, reason: of the newest request.
    """

    principal: str
    reason: Text = ""

    @property
    def words(self) -> str:
        """Return the requester and the reason as text."""
        return f"by {self.principal}: {self.reason}" if self.reason else f"by {self.principal}"


class JobReprioritised(Payload):
    """`reprioritised`: a queued job changes its position, a running job its rank among preemption targets. was: its
    former priority."""

    priority: Priority
    was: Priority
    principal: str
    reason: Text = ""


class JobRequestRefused(Payload):
    """`hold-refused`, `release-refused`, `priority-refused`, `requeue-refused`, `edit-refused`: no change was applied.
    principal: the requester. reason: why."""

    principal: str
    reason: Text


class JobEditRequested(Payload):
    """`edit-requested` and `edit-forwarded`: the waiting job shall have these run times. None: unchanged."""

    principal: str
    reason: Text = ""
    total_run_time_s: RunTime | None = None
    min_slice_s: SliceTime | None = None


class JobEdited(Payload):
    """`edited`: the job has these run times from now on."""

    total_run_time_s: float
    min_slice_s: float
    principal: str
    reason: Text = ""


class PendingEdit(Payload):
    """A request to edit a job by `fact` that is not answered yet."""

    fact: str
    asked: JobEditRequested


def with_edit(older: PendingEdit | None, newer: PendingEdit) -> PendingEdit:
    """Return the newer request, with the fields that only the older one sets."""
    if older is None:
        return newer
    left = {name: value for name, value in newer.asked if value is not None}
    return newer.model_copy(update={"asked": older.asked.model_copy(update=left)})


class PendingRequeue(Payload):
    """A request to requeue a job by `fact` that is not answered yet."""

    fact: str
    principal: str
    reason: Text = ""

    @property
    def words(self) -> str:
        """Return the requester and the reason as text."""
        return f"requested by {self.principal}: {self.reason}" if self.reason else f"requested by {self.principal}"


def pending_requeue(fact: str, asked: JobHoldRequested) -> PendingRequeue:
    """Return the unanswered request of this fact."""
    return PendingRequeue(fact=fact, principal=asked.principal, reason=asked.reason)


class Ask(StrEnum):
    """Kinds of requests about a job that apply to all of its attempts, until the next request of the same kind."""

    HOLD = "hold"
    RELEASE = "release"
    PRIORITY = "priority"


class PendingJobRequest(Payload):
    """A request about a job by `fact` that is not answered yet. priority: of Ask.PRIORITY only."""

    fact: str
    ask: Ask
    principal: str
    reason: Text = ""
    priority: Priority | None = None

    @property
    def is_about_priority(self) -> bool:
        """Return whether it requests a priority; otherwise a hold or release."""
        return self.ask is Ask.PRIORITY


def pending_job_request(fact: str, ask: Ask, payload: JobHoldRequested | JobPriorityRequested) -> PendingJobRequest:
    """Return the unanswered request of this fact."""
    priority = payload.priority if isinstance(payload, JobPriorityRequested) else None
    return PendingJobRequest(fact=fact, ask=ask, principal=payload.principal, reason=payload.reason, priority=priority)


def with_pending(requests: Iterable[PendingJobRequest], request: PendingJobRequest) -> tuple[PendingJobRequest, ...]:
    """Return the requests with one more: the newest of hold and of priority counts, so a job has at most two."""
    return (*(other for other in requests if other.is_about_priority != request.is_about_priority), request)


def without_answered(requests: Iterable[PendingJobRequest], answered: Iterable[str]) -> tuple[PendingJobRequest, ...]:
    """Return the requests that none of these facts answers."""
    known = frozenset(answered)
    return tuple(request for request in requests if request.fact not in known)
