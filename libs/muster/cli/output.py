"""What a command prints: JSON in stable shapes for programs, tables for people. Results on stdout, talk on stderr.

Names, reasons and messages come from others, so every text passes here, where control characters become visible
escapes and rich's markup is plain text. No other module of the command line writes to the terminal
(`tests/unit/cli/test_output.py` reads them all).
"""

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO, cast

import typer

from muster.bus.printable import printable, printable_json, printable_lines
from muster.cli.errors import usage
from muster.cli.options import Output

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from muster.schemas.record import Document

Row = Sequence[str]
PIPED_WIDTH = 1000  # columns: what reads a pipe cuts for itself


class _Checked:
    """Standard output; CliError where it cannot be written, so that a full disk ends a command as other errors do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _told():
            return self._stream.write(text)

    def flush(self) -> None:
        with _told():
            self._stream.flush()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # the reader left, as `head` does: typer ends the command without a message
    except OSError as error:
        raise usage(f"standard output: cannot be written ({error.strerror}); the result is not complete") from error


@contextmanager
def checked_output() -> Iterator[None]:
    """Raise CliError where standard output cannot be written, whatever writes to it."""
    with redirect_stdout(cast("TextIO", _Checked(sys.stdout))):
        yield


def drop_output() -> None:
    """Drop what could not be written, which the interpreter would else try to write again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_line(line: str = "") -> None:
    """Print one line of a result; line breaks in it are escaped."""
    typer.echo(printable(line))


def print_lines(lines: str) -> None:
    """Print a document whose line breaks are meant, such as YAML that Muster wrote."""
    typer.echo(printable_lines(lines), nl=not lines.endswith("\n"))


def print_note(note: str) -> None:
    """Print one line for the person at the terminal, on stderr."""
    typer.echo(printable(note), err=True)


def print_error(error: Exception | str) -> None:
    """Print an error on stderr; only its first line can look like one of Muster."""
    first, *rest = str(error).splitlines() or [""]
    typer.echo("\n  ".join([f"muster: {printable(first)}", *map(printable, rest)]), err=True)


def console() -> "Console":
    """For results."""
    return _console(soft_wrap=True)


def talk() -> "Console":
    """For progress: stderr, so that stdout can be piped."""
    return _console(stderr=True)


def _console(*, stderr: bool = False, soft_wrap: bool = False) -> "Console":
    """A console that renders no markup, and whose every segment is cleaned, whatever was printed on it."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Cleaned(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment  # of rich itself: to move the cursor of a live view
                else:
                    yield Segment(printable_lines(segment.text), segment.style)

    return Cleaned(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)


def confirm(question: str) -> None:
    """Ask on stderr. Raises CliError (usage) unless somebody says yes: in a script nobody is there to be asked."""
    try:
        agreed = typer.confirm(printable(question), err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise usage("--yes: nothing was done, for nobody agreed; give it to go on without being asked")


def emit_model(model: "Document") -> None:
    """One view as one JSON object."""
    _emit(model.model_dump_json())


def emit_models(models: Iterable["Document"]) -> None:
    """Views as one JSON array."""
    _emit("[" + ",\n".join(model.model_dump_json() for model in models) + "]")


def emitted(found: "Document | Sequence[Document]", form: Output) -> bool:
    """Print views as JSON if that is the form; return whether it is, and nothing is left to print."""
    if form is not Output.JSON:
        return False
    if isinstance(found, Sequence):
        emit_models(found)
    else:
        emit_model(found)
    return True


def emit_lines(models: Iterable["Document"]) -> None:
    """Views as JSON lines: for what has no end."""
    for model in models:
        _emit(model.model_dump_json())


def emit_json(value: "JsonValue | Mapping[str, object]", *, indent: int | None = 2) -> None:
    """A JSON value."""
    _emit(json.dumps(value, indent=indent))


def _emit(document: str) -> None:
    typer.echo(printable_json(document))


def text(line: str, *, style: str = "", no_wrap: bool = False) -> "Text":
    """Return one line for a rich display."""
    from rich.text import Text

    return Text(printable(line), style=style, no_wrap=no_wrap)


def grid(headings: Sequence[str], rows: Iterable[Row], *, right: Collection[str] = ()) -> "Table":
    """Return a plain table for a rich display. No headings: none are shown. right: columns that hold numbers."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, show_header=bool(headings), header_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        made.add_row(*map(text, row))
    return made


def table(headings: Sequence[str], rows: Iterable[Row], *, right: Iterable[str] = (), title: str = "") -> None:
    """A plain table. right: headings of columns that hold numbers. Piped, it is not cut to a screen's width."""
    out = console()
    made = grid(headings, rows, right=frozenset(right))
    made.title, made.title_justify = text(title) if title else None, "left"
    if not out.is_terminal:
        out.width = PIPED_WIDTH
    out.print(made)


def details(pairs: Iterable[tuple[str, str]]) -> None:
    """Name and value, one pair a line; empty values are left out."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    out = console()
    for name, value in shown:
        head = printable(name).ljust(width)
        line = text(f"{head}  {value}")
        line.stylize("bold", 0, len(head))
        out.print(line)


def heading(title: str) -> None:
    """Print the title of what follows."""
    console().print(text(title, style="bold"))
