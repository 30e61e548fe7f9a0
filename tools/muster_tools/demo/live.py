"""The demonstrations while they run: where each stands, and the facts of scaling as they come."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from muster.cli.output import grid, print_note, talk, text
from muster.core.instant import Instant, seconds_between

if TYPE_CHECKING:
    from rich.live import Live

    from muster.client import Muster
    from muster.schemas.views import FactView

LINES = 14
TOLD = ("reason", "detail", "error", "device_uuid", "node")
"""Fields of a fact's body, the first that says something is shown."""
KINDS = frozenset({"scale", "attachment", "composability", "fabric", "autoscaler"})
OF_JOBS = frozenset({"submitted", "unschedulable", "placed", "running", "cancelled"})
OF_NODES = frozenset({"joined", "left", "released", "withhold-requested", "withheld", "provision-failed"})


class Show:
    """A screen in a terminal; plain lines elsewhere; nothing if quiet."""

    def __init__(self, titles: Sequence[str], live: "Live | None", *, quiet: bool) -> None:
        self._states = [("waits", title) for title in titles]
        self._newest: deque[str] = deque(maxlen=LINES)
        self._live = live
        self._quiet = quiet
        self._since: Instant | None = None

    def begin(self, index: int) -> None:
        """A demonstration begins."""
        self._state(index, "runs")
        self._plain(f"{self._states[index][1]} ...")

    def end(self, index: int, *, passed: bool, seconds: float) -> None:
        """It is over."""
        self._state(index, f"passed, {seconds:.1f} s" if passed else "FAILED")

    async def follow(self, muster: "Muster") -> None:
        """Show facts as they come, until cancelled."""
        async for fact in muster.watch():
            if is_shown(fact):
                self._since = self._since or Instant(fact.time)
                line = fact_line(fact, self._since)
                self._newest.append(line)
                self._plain(f"  {line}")
                self._draw()

    def _state(self, index: int, state: str) -> None:
        self._states[index] = (state, self._states[index][1])
        self._draw()

    def _plain(self, line: str) -> None:
        if self._live is None and not self._quiet:
            print_note(line)

    def _draw(self) -> None:
        if self._live is None:
            return
        from rich.console import Group

        states = grid((), ((title, state) for state, title in self._states))
        self._live.update(Group(states, "", *(text(line, no_wrap=True) for line in self._newest)), refresh=True)


def fact_line(fact: "FactView", since: Instant) -> str:
    """Seconds since then, who said what of whom, and what it says for people."""
    body = json.loads(fact.body) if fact.body else {}
    told = next((str(body[field]) for field in TOLD if body.get(field)), "")
    seconds = seconds_between(since, Instant(fact.time))
    return f"{seconds:6.2f} s  {fact.writer:<9}  {fact.name:<18}  {fact.subject_id:<40}  {told}".rstrip()


def is_shown(fact: "FactView") -> bool:
    """Whether the fact says something of scaling, or of a job's way."""
    if fact.kind in KINDS:
        return fact.name != "state-recorded"
    return (fact.kind == "job" and fact.name in OF_JOBS) or (fact.kind in ("node", "device") and fact.name in OF_NODES)


@contextmanager
def shown(titles: Sequence[str], *, quiet: bool) -> Iterator[Show]:
    """The show, while the demonstrations run."""
    out = talk()
    if quiet or not out.is_terminal:
        yield Show(titles, None, quiet=quiet)
        return
    from rich.live import Live

    with Live(console=out, auto_refresh=False) as live:
        yield Show(titles, live, quiet=quiet)
