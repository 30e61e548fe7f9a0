"""When to send a request again, and after how long: a function of the failure, the attempt and a seed."""

from muster.core.seeded import uniform
from muster.kube.bounds import ATTEMPTS_MAX, BACKOFF_S_MAX, BACKOFF_S_MIN
from muster.kube.errors import KubeError, TooManyRequestsError, UnauthorizedError, UnavailableError


def wait_s(error: KubeError, attempt: int, *, seed: int, attempts_max: int = ATTEMPTS_MAX) -> float | None:
    """Seconds until a request that failed is sent again; None if it is not. attempt: 1 for the first.

    A change whose effect is unknown is never repeated here: only who asked knows what to look for. An eviction that a
    disruption budget refuses is the caller's to wait for.
    """
    if attempt >= attempts_max:
        return None
    if isinstance(error, UnauthorizedError):
        return 0.0 if attempt == 1 else None  # once, with credentials that are read again
    if isinstance(error, TooManyRequestsError):
        return None if error.by_budget else backoff_s(attempt, seed=seed, at_least_s=error.retry_after_s)
    if isinstance(error, UnavailableError) and not error.effect_unknown:
        return backoff_s(attempt, seed=seed, at_least_s=error.retry_after_s)
    return None


def backoff_s(
    attempt: int, *, seed: int, at_least_s: float = 0.0, first_s: float = BACKOFF_S_MIN, max_s: float = BACKOFF_S_MAX
) -> float:
    """Exponential with full jitter above half of it, so that clients that failed together do not return together."""
    full_s = min(max_s, first_s * 2.0 ** min(attempt - 1, 30))
    spread = uniform(seed, "kube backoff", attempt)
    return at_least_s + full_s * (0.5 + 0.5 * spread)
