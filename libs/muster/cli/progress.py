"""Progress of long work, on stderr; without a terminal a plain line now and then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster.cli.output import talk

PLAIN_STEPS = 10  # lines that a piped run prints over the whole work


@contextmanager
def counting(what: str, *, total: float) -> Iterator[Callable[[], None]]:
    """A bar over `total` steps; the function given makes one step."""
    with measured(what, total=total) as reached:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            reached(done)

        yield advance


@contextmanager
def measured(what: str, *, total: float) -> Iterator[Callable[[float], None]]:
    """A bar whose position is set: the function given takes how far the work is, out of `total`."""
    out = talk()
    if not out.is_terminal:
        told = 0

        def say(at: float) -> None:
            nonlocal told
            step = int(PLAIN_STEPS * at / total) if total else PLAIN_STEPS
            if step > told:
                told = step
                out.print(f"{what}: {at:g} of {total:g}")

        yield say
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out) as bar:
        task = bar.add_task(what, total=total)
        yield lambda at: bar.update(task, completed=at)
