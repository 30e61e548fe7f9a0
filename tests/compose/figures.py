"""What a run measures, in lines that are shown at its end. Nothing here is asserted: machines differ."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Figures:
    """Lines in order."""

    lines: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """How long something took."""
        began = time.monotonic()
        yield
        self.say(f"{what}: {time.monotonic() - began:.1f} s")
