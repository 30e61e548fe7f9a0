"""What an answer means and what is done next. Pure: jitter is a hash of what is retried."""

from dataclasses import dataclass
from enum import StrEnum

from muster.core.seeded import uniform
from muster.notifier.limits import JITTER, REFUSED_ATTEMPTS_MAX, RETRY_AFTER_S_MAX

GONE = 410
_BODY_IS_WRONG = frozenset({400, 413, 415, 422})
_SEED = 0


class Step(StrEnum):
    """What becomes of an event after an attempt. STOP: the receiver wants nothing more, ever."""

    DONE = "done"
    RETRY = "retry"
    BURY = "bury"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Policy:
    """How often, and how far apart."""

    attempts_max: int
    backoff_s: float
    backoff_s_max: float


@dataclass(frozen=True, slots=True)
class Next:
    """What to do. delay_s: before the next attempt."""

    step: Step
    delay_s: float = 0.0


def next_step(
    status: int, *, attempt: int, message_id: str, policy: Policy, retry_after_s: float | None = None
) -> Next:
    """What follows attempt number `attempt` (from 1) with an answer of `status`, 0 if none came.

    2xx is success. 410 asks to stop for good. 400, 413, 415 and 422 speak of the message, so they are asked again a few
    times only. All else may pass: an outage, a redirect that is not followed, an address or a key that is being mended.
    """
    if 200 <= status < 300:
        return Next(Step.DONE)
    if status == GONE:
        return Next(Step.STOP)
    attempts_max = min(policy.attempts_max, REFUSED_ATTEMPTS_MAX) if status in _BODY_IS_WRONG else policy.attempts_max
    if attempt >= attempts_max:
        return Next(Step.BURY)
    asked_s = min(retry_after_s or 0.0, RETRY_AFTER_S_MAX)
    return Next(Step.RETRY, max(asked_s, backoff_s(attempt, message_id=message_id, policy=policy)))


def backoff_s(attempt: int, *, message_id: str, policy: Policy) -> float:
    """Pause after attempt number `attempt`: doubles up to the greatest, give or take JITTER."""
    doubled = min(policy.backoff_s_max, policy.backoff_s * 2.0 ** min(attempt - 1, 64))
    return doubled * (1.0 + JITTER * (2.0 * uniform(_SEED, message_id, attempt) - 1.0))
