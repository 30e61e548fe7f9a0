"""Show progress on standard error: a bar on a terminal, otherwise a few plain lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from muster.cli.output import print_note, talk

PLAIN_STEPS = 10  # lines that a piped run prints over the whole work


class Reached(Protocol):
    """Reports progress."""

    def __call__(self, at: float, note: str = "") -> None:
        """Report `at` of the total. note: further text beside the bar."""
        ...


@contextmanager
def counting(what: str, *, total: float) -> Iterator[Callable[[], None]]:
    """Show a bar over `total` steps; the yielded function advances by one step."""
    with measured(what, total=total) as reached:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            reached(done)

        yield advance


@contextmanager
def measured(what: str, *, total: float) -> Iterator[Reached]:
    """Show a bar; the yielded function sets its position."""
    out = talk()
    if not out.is_terminal:
        yield _plain(what, total)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"), TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=out) as bar:
        task = bar.add_task(what, total=total, note="")

        def show(at: float, note: str = "") -> None:
            bar.update(task, completed=at, note=note)

        yield show


def _plain(what: str, total: float) -> Reached:
    told = 0

    def say(at: float, note: str = "") -> None:
        nonlocal told
        step = int(PLAIN_STEPS * at / total) if total else PLAIN_STEPS
        if step > told:
            told = step
            print_note(f"{what}: {at:.0f} of {total:.0f} {note}".rstrip())

    return say
