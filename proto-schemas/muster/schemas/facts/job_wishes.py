"""What is asked of a job beside its end: that it is held, released, or gets another priority; and what is answered."""

from collections.abc import Iterable
from enum import StrEnum

from muster.schemas.base import Payload, Text
from muster.schemas.job import Priority


class JobHoldRequested(Payload):
    """`hold-requested`, `release-requested` and both as forwarded: the job shall not be started, or may be again."""

    principal: str
    reason: Text = ""


class JobPriorityRequested(Payload):
    """`priority-requested` and `priority-forwarded`: the job shall have this priority from now on."""

    principal: str
    priority: Priority
    reason: Text = ""


class JobHeld(Payload):
    """`held`: the job waits and is passed over until `unheld`; what was reserved for it is free for others.

    It keeps its place in line. `unheld`: it stands there again. principal, reason: who asked last, and why.
    """

    principal: str
    reason: Text = ""

    @property
    def words(self) -> str:
        """As people are told."""
        return f"by {self.principal}: {self.reason}" if self.reason else f"by {self.principal}"


class JobReprioritised(Payload):
    """`reprioritised`: a waiting job has another place in line, a running one another rank among those that may be
    asked to make way. was: its priority until now.
    """

    priority: Priority
    was: Priority
    principal: str
    reason: Text = ""


class JobWishRefused(Payload):
    """`hold-refused`, `release-refused`, `priority-refused`: nothing changes. principal: who asked. reason: why not."""

    principal: str
    reason: Text


class Ask(StrEnum):
    """What may be asked of a job beside its end."""

    HOLD = "hold"
    RELEASE = "release"
    PRIORITY = "priority"


class JobWish(Payload):
    """What was asked of a job by `fact` and is not answered yet. priority: of Ask.PRIORITY alone."""

    fact: str
    ask: Ask
    principal: str
    reason: Text = ""
    priority: Priority | None = None

    @property
    def is_about_priority(self) -> bool:
        """Whether it is; else it is about holding."""
        return self.ask is Ask.PRIORITY


def job_wish(fact: str, ask: Ask, payload: JobHoldRequested | JobPriorityRequested) -> JobWish:
    """The wish that this request is."""
    priority = payload.priority if isinstance(payload, JobPriorityRequested) else None
    return JobWish(fact=fact, ask=ask, principal=payload.principal, reason=payload.reason, priority=priority)


def with_wish(wishes: Iterable[JobWish], wish: JobWish) -> tuple[JobWish, ...]:
    """These and one more: of holding and of priority the newest counts, so a job never has more than two."""
    return (*(other for other in wishes if other.is_about_priority != wish.is_about_priority), wish)


def without_wishes(wishes: Iterable[JobWish], answered: Iterable[str]) -> tuple[JobWish, ...]:
    """Those that none of these facts asked for."""
    known = frozenset(answered)
    return tuple(wish for wish in wishes if wish.fact not in known)
