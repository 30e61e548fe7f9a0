"""Runs the demonstrations one after the other, and prints their results."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from muster.cli import output
from muster.cli.errors import refused, usage
from muster.cli.options import Output
from muster.kube.errors import KubeError
from muster_tools.demo.guard.result import HEADINGS, NUMBERS, Story, as_json, rows
from muster_tools.demo.guard.story_limits import limits
from muster_tools.demo.guard.story_lists import listing
from muster_tools.demo.guard.story_memory import memory
from muster_tools.demo.guard.story_secrets import credentials
from muster_tools.demo.guard.story_skew import skew
from muster_tools.local_kubernetes.errors import LocalPlaneError

Told = Callable[[], Awaitable[Story]]


def stories(emulated_version: str) -> dict[str, tuple[Told, ...]]:
    """Return the demonstrations by their name on the command line, in order."""

    async def listed() -> Story:
        with tempfile.TemporaryDirectory(prefix="muster-guard-audit-") as folder:
            return await listing(Path(folder), seed=os.getpid())

    return {
        "lists": (listed,),
        "skew": (lambda: skew(emulated_version=emulated_version),),
        "memory": (lambda: memory(emulated_version=emulated_version),),
        "secrets": (credentials,),
        "limits": (lambda: limits(emulated_version=emulated_version), lambda: limits(emulated_version="")),
    }


def tell(names: Sequence[str], form: Output, *, emulated_version: str) -> None:
    """Run the command. Raises CliError."""
    every = stories(emulated_version)
    if unknown := [name for name in names if name not in every]:
        raise usage(f"--story: {unknown[0]!r} is not a story; use one of {', '.join(every)}")
    try:
        found = asyncio.run(_told([one for name in names or every for one in every[name]], form))
    except (LocalPlaneError, KubeError) as error:
        raise refused(str(error)) from error
    if form is Output.JSON:
        output.emit_json({"emulated_version": emulated_version, "stories": [as_json(story) for story in found]})


async def _told(wanted: Sequence[Told], form: Output) -> list[Story]:
    """Run each and print its result at once, since all of them take minutes."""
    found = []
    for number, story in enumerate(wanted, start=1):
        with output.talk().status(f"story {number} of {len(wanted)}"):
            found.append(await story())
        if form is not Output.JSON:
            _print(found[-1])
    return found


def _print(story: Story) -> None:
    output.print_line()
    output.heading(story.title)
    output.details((("before", story.before), ("after", story.after)))
    output.table(HEADINGS, rows(story), right=NUMBERS)
    output.details(
        (
            ("guard's advice before", story.advice),
            ("guard's advice after", story.advice_after or ("nothing" if story.advice else "")),
            ("so", story.conclusion),
        )
    )
