"""What is answered to those who ask that a job is held, released, or gets another priority. Newest wishes count."""

from muster.scheduler.core.jobs import HOLDING, JobRecord
from muster.schemas.base import Payload
from muster.schemas.facts.job import StopReason
from muster.schemas.facts.job_wishes import Ask, JobHeld, JobReprioritised, JobWish, JobWishRefused
from muster.schemas.job import Phase

_ENDING = frozenset({StopReason.CANCELLED, StopReason.TIMED_OUT})
"""Why a job is stopped that will not wait again."""

_STANDS = {
    Phase.PLACED: "it has its places already, and its pods are starting",
    Phase.RUNNING: "it runs",
    Phase.STOPPING: "its pods are being ended",
}


def answer(record: JobRecord, wish: JobWish) -> tuple[str, Payload]:
    """Name and body of the fact that answers this, now, for a job that was queued and has not ended.

    Asking for what is so already is no mistake, except for the release of a job that nobody holds.
    """
    match wish.ask:
        case Ask.HOLD:
            if record.phase in HOLDING:
                return "hold-refused", _refused(wish, f"{_STANDS[record.phase]}: only a job that waits can be held")
            return "held", JobHeld(principal=wish.principal, reason=wish.reason)
        case Ask.RELEASE:
            if record.held is None:
                return "release-refused", _refused(wish, "it is not held")
            return "unheld", JobHeld(principal=wish.principal, reason=wish.reason)
        case Ask.PRIORITY:
            if record.cancel_fact or record.stop_reason in _ENDING:
                return "priority-refused", _refused(wish, "it is being ended for good")
            return "reprioritised", _reprioritised(record, wish)


def _refused(wish: JobWish, reason: str) -> JobWishRefused:
    return JobWishRefused(principal=wish.principal, reason=reason)


def _reprioritised(record: JobRecord, wish: JobWish) -> JobReprioritised:
    assert wish.priority is not None, f"{wish.fact}: a wish for another priority names it"
    return JobReprioritised(
        priority=wish.priority, was=record.effective_priority, principal=wish.principal, reason=wish.reason
    )
