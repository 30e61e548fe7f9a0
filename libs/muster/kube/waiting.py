"""What a failure means for a watch's next turn: how long it waits, and whether the state is to be had anew. Pure."""

from dataclasses import dataclass

from muster.core.seeded import uniform
from muster.kube import bounds
from muster.kube.errors import ForbiddenError, GoneError, InvalidError, KubeError, NotFoundError, UnavailableError
from muster.kube.figures import ReflectorFigures
from muster.kube.retrying import backoff_s

TOO_LARGE = "Too large resource version"
"""How a server says that it has not reached a version; client-go reads the same words."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds before the next turn. anew: the version that was reached is of no more use."""

    for_s: float
    anew: bool = False


class Waits:
    """Of one reflector. figures: where failures are told. streaming_lists: false once the server refused one."""

    def __init__(self, figures: ReflectorFigures, *, seed: int) -> None:
        self.streaming_lists = True
        self._figures = figures
        self._seed = seed
        self._turns = 0
        self._failures = 0
        self._too_large = 0

    def begin(self) -> float:
        """Another turn: how much longer than others its watch is, in parts of their time."""
        self._turns += 1
        return uniform(self._seed, "watch", self._turns)

    def heard(self) -> None:
        """The server told something that was understood."""
        self._failures = self._too_large = 0

    def after(self, error: KubeError, *, resuming: bool) -> Wait:
        """The turn failed. resuming: it went on from a version."""
        figures = self._figures
        if isinstance(error, InvalidError) and not resuming and self.streaming_lists:
            self.streaming_lists = False  # the gate WatchList is off: 1.33 by default
            figures.streaming = False
            return Wait(0.0)
        figures.last_error = str(error)
        figures.failures += 1
        if isinstance(error, GoneError):
            figures.gone += 1
            return self._relist()
        if isinstance(error, UnavailableError) and TOO_LARGE in str(error):
            self._too_large += 1
            if self._too_large > bounds.TOO_LARGE_MAX:
                self._too_large = 0
                return self._relist()
        if isinstance(error, ForbiddenError | NotFoundError | InvalidError):
            return Wait(bounds.REFUSED_S * (0.5 + uniform(self._seed, "refused", self._turns)))
        return Wait(self.back_off(at_least_s=float(getattr(error, "retry_after_s", 0.0))))

    def back_off(
        self, *, at_least_s: float = 0.0, first_s: float = bounds.BACKOFF_S_MIN, max_s: float = bounds.BACKOFF_S_MAX
    ) -> float:
        """Seconds, more each time until something is heard."""
        self._failures += 1
        return backoff_s(
            self._failures, seed=self._seed + self._turns, at_least_s=at_least_s, first_s=first_s, max_s=max_s
        )

    def _relist(self) -> Wait:
        return Wait(self.back_off(first_s=bounds.RELIST_S_MIN, max_s=bounds.RELIST_S_MAX), anew=True)
