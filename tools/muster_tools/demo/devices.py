"""`muster demo devices`: a fresh stack, four demonstrations on it, what was decided and why."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from muster.cli import output as printed
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.cli.session import connected
from muster.schemas.facts.scale import Alternative
from muster.schemas.queries import ScaleChoiceView
from muster.stack import control
from muster.stack.options import StartOptions
from muster.stack.state_dir import StateDir, StateDirError
from muster_tools.demo.live import Show, shown
from muster_tools.demo.settings import demo_settings
from muster_tools.demo.stage import DemoFailedError, Stage
from muster_tools.demo.stories import STORIES, Cast, Story, prepare

if TYPE_CHECKING:
    from muster.client import Muster

ADDING = (1, 2)
"""Cases in which something is added."""


@dataclass(frozen=True, slots=True)
class Played:
    """One demonstration. problem: "" if it passed. decisions: what the scaler chose meanwhile, oldest first.

    crossed: who spoke in the trace from the pending job to the running one, where that was asked.
    """

    name: str
    title: str
    seconds: float
    problem: str
    decisions: tuple[ScaleChoiceView, ...]
    crossed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all was as it should be."""
        return not self.problem

    def to_json(self) -> dict[str, JsonValue]:
        """{name, title, passed, seconds, problem, crossed, decisions: [...]}."""
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
    """Play all, print what came of them. Raises CliError (refused) unless all passed. keep: leave the stack running."""
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
        print_note(f"the stack goes on: muster down --state-dir {directory}")
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
    """A stack of its own on any free ports. Raises StartFailedError, StateDirError."""
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
    """The stage over a stack that runs with `demo_settings`."""
    settings = StateDir(directory).settings
    from muster.bus.settings import Settings

    (fabric,) = Settings.model_validate_json(settings.read_bytes()).fabrics
    return Stage(muster, fabric.url)


async def play_all(stage: Stage, show: Show | None = None) -> list[Played]:
    """All demonstrations, in order; after one that failed the others are tried all the same.

    Raises DemoFailedError if the stage cannot be set.
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
    """One demonstration, and what was decided in it."""
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
    """What was simulated, and what it would take, or why it would not do."""
    if not other.fits:
        return f"{other.what}: would not do{', ' if other.detail else ''}{other.detail}"
    watts = f"{other.watts:+.0f} W" if choice.case in ADDING else f"saves {other.watts:.0f} W"
    return f"{other.what}: {watts}, in {other.ready_s:.0f} s"
