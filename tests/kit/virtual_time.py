"""An event loop whose clock jumps to whatever is due next: hours pass at once, and in the same order every time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingWillHappenError(RuntimeError):
    """Everything waits, and nothing is due: a real loop would hang."""


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no one: what it is asked to wait has passed."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise NothingWillHappenError
            self.passed_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For tasks that wait for each other and for time, without input or output. Close it."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_s


def virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run it to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
