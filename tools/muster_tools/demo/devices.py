"""`muster demo devices`: four demonstrations on a fresh stack, with the decisions and their reasons."""

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from muster.cli import output as printed
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import grid, print_line, print_note, talk, text
from muster.cli.session import connected
from muster.core.instant import Instant, seconds_between
from muster.schemas.facts.scale import Alternative
from muster.schemas.queries import ScaleChoiceView
from muster.stack import control
from muster.stack.options import StartOptions
from muster.stack.state_dir import StateDir, StateDirError
from muster_tools.demo.settings import demo_settings
from muster_tools.demo.stage import DemoFailedError, Stage
from muster_tools.demo.stories import STORIES, Cast, Story, prepare

if TYPE_CHECKING:
    from rich.live import Live

    from muster.client import Muster
    from muster.schemas.views import FactView

LINES = 14
TOLD = ("reason", "detail", "error", "device_uuid", "node")
"""Fields of a fact's body; the first one with a value is shown."""
KINDS = frozenset({"scale", "attachment", "composability", "fabric", "autoscaler"})
OF_JOBS = frozenset({"submitted", "unschedulable", "placed", "running", "cancelled"})
OF_NODES = frozenset({"joined", "left", "released", "withhold-requested", "withheld", "provision-failed"})


class Show:
    """Progress of the demonstrations: a live screen in a terminal, else plain lines; no output if quiet."""

    def __init__(self, titles: Sequence[str], live: "Live | None", *, quiet: bool) -> None:
        self._states = [("waits", title) for title in titles]
        self._newest: deque[str] = deque(maxlen=LINES)
        self._live = live
        self._quiet = quiet
        self._since: Instant | None = None

    def begin(self, index: int) -> None:
        """Show that a demonstration begins."""
        self._state(index, "runs")
        self._plain(f"{self._states[index][1]} ...")

    def end(self, index: int, *, passed: bool, seconds: float) -> None:
        """Show that a demonstration has ended."""
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
    """Return a fact as a line: seconds since `since`, writer, fact, subject and details."""
    body = json.loads(fact.body) if fact.body else {}
    told = next((str(body[field]) for field in TOLD if body.get(field)), "")
    seconds = seconds_between(since, Instant(fact.time))
    return f"{seconds:6.2f} s  {fact.writer:<9}  {fact.name:<18}  {fact.subject_id:<40}  {told}".rstrip()


def is_shown(fact: "FactView") -> bool:
    """Return whether the fact concerns scaling or the life of a job."""
    if fact.kind in KINDS:
        return fact.name != "state-recorded"
    return (fact.kind == "job" and fact.name in OF_JOBS) or (fact.kind in ("node", "device") and fact.name in OF_NODES)


@contextmanager
def shown(titles: Sequence[str], *, quiet: bool) -> Iterator[Show]:
    """Show progress while the block runs."""
    out = talk()
    if quiet or not out.is_terminal:
        yield Show(titles, None, quiet=quiet)
        return
    from rich.live import Live

    with Live(console=out, auto_refresh=False) as live:
        yield Show(titles, live, quiet=quiet)


if TYPE_CHECKING:
    from muster.client import Muster

ADDING = (1, 2)
"""Cases in which devices or nodes are added."""


@dataclass(frozen=True, slots=True)
class Played:
    """Result of one demonstration."""

    name: str
    title: str
    seconds: float
    problem: str
    """Reason of a failure, "" if it passed."""
    decisions: tuple[ScaleChoiceView, ...]
    """Choices of the scaler during the demonstration, oldest first."""
    crossed: tuple[str, ...] = ()
    """Services in the trace from the pending to the running job, where that was checked."""

    @property
    def passed(self) -> bool:
        """Return whether the demonstration passed."""
        return not self.problem

    def to_json(self) -> dict[str, JsonValue]:
        """Return {name, title, passed, seconds, problem, crossed, decisions: [...]}."""
        decisions: list[JsonValue] = [
            one.model_dump(mode="json", exclude={"id", "cluster", "at", "ended_at"}) for one in self.decisions
        ]
        return {
            "name": self.name,
            "title": self.title,
            "passed": self.passed,
            "seconds": round(self.seconds, 2),
            "problem": self.problem,
            "crossed": list(self.crossed),
            "decisions": decisions,
        }


def run(form: Output, *, keep: bool) -> None:
    """Run all and print the results. Raises CliError (refused) unless all passed. keep: keep the stack running."""
    directory = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    try:
        try:
            played = asyncio.run(_in(directory, form, keep=keep))
        except (control.StartFailedError, StateDirError, DemoFailedError) as error:
            raise refused(str(error)) from error
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
    _tell(played, form)
    if keep:
        print_note(f"the stack keeps running; stop it with: muster down --state-dir {directory}")
    failed = [f"{one.name}: {one.problem}" for one in played if not one.passed]
    if failed:
        raise refused("; ".join(failed))


async def _in(directory: Path, form: Output, *, keep: bool) -> list[Played]:
    async with _stack(directory, keep=keep) as stage:
        with shown([title for _, title, _ in STORIES], quiet=form is Output.JSON) as show:
            following = asyncio.create_task(show.follow(stage.muster))
            try:
                return await play_all(stage, show)
            finally:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following


@contextlib.asynccontextmanager
async def _stack(directory: Path, *, keep: bool) -> AsyncIterator[Stage]:
    """Run a stack on any free ports. Raises StartFailedError, StateDirError."""
    options = StartOptions(
        state_dir=directory, settings=demo_settings(), any_ports=True, started_as="muster demo devices"
    )
    print_note(f"starting a stack in {directory}")
    await asyncio.to_thread(control.detach, options)
    try:
        async with connected(directory) as muster:
            yield stage_of(muster, directory)
    finally:
        if not keep:
            await asyncio.to_thread(control.down, directory)


def stage_of(muster: "Muster", directory: Path) -> Stage:
    """Return the stage over a stack that runs with `demo_settings`."""
    settings = StateDir(directory).settings
    from muster.bus.settings import Settings

    (fabric,) = Settings.model_validate_json(settings.read_bytes()).fabrics
    return Stage(muster, fabric.url)


async def play_all(stage: Stage, show: Show | None = None) -> list[Played]:
    """Run all demonstrations in order, also after one has failed.

    Raises DemoFailedError if the stage cannot be set up.
    """
    cast = Cast()
    await stage.set_up()
    await prepare(stage, cast)
    played = []
    for index, (name, title, story) in enumerate(STORIES):
        if show is not None:
            show.begin(index)
        played.append(await play(stage, cast, name=name, title=title, story=story))
        if show is not None:
            show.end(index, passed=played[-1].passed, seconds=played[-1].seconds)
    return played


async def play(
    stage: Stage, cast: Cast, *, name: str, title: str, story: Story, clock: Callable[[], float] = time.monotonic
) -> Played:
    """Run one demonstration, and collect its decisions."""
    stage.seen |= {choice.id for choice in await stage.muster.scale_choices()}
    began_s, problem, stage.crossed = clock(), "", ()
    try:
        await story(stage, cast)
    except DemoFailedError as error:
        problem = str(error)
    return Played(name, title, clock() - began_s, problem, tuple(await stage.choices()), stage.crossed)


def _tell(played: Sequence[Played], form: Output) -> None:
    if form is Output.JSON:
        printed.emit_json([one.to_json() for one in played])
        return
    for one in played:
        print_line()
        print_line(f"{'passed' if one.passed else 'FAILED'}  {one.title}  ({one.seconds:.1f} s)")
        if one.problem:
            print_line(f"  {one.problem}")
        if one.crossed:
            print_line(f"  one trace: {' > '.join(one.crossed)}")
        for choice in one.decisions:
            print_line(f"  case {choice.case}: {choice.name}: {choice.reason}")
            for other in choice.alternatives:
                print_line(f"    {'*' if other.chosen else '-'} {_alternative(choice, other)}")


def _alternative(choice: ScaleChoiceView, other: Alternative) -> str:
    """Return a simulated alternative with its cost, or why it does not help."""
    if not other.fits:
        return f"{other.what}: not sufficient{', ' if other.detail else ''}{other.detail}"
    watts = f"{other.watts:+.0f} W" if choice.case in ADDING else f"saves {other.watts:.0f} W"
    return f"{other.what}: {watts}, in {other.ready_s:.0f} s"
