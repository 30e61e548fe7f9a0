"""Print results: documents for programs, tables for people. Results go to stdout, notes and errors to stderr.

Names, reasons and messages come from other users, so every text passes here, where control characters become visible
escapes and rich's markup is plain text. No other module of the command line writes to the terminal
(`tests/unit/cli/test_output.py` reads them all).
"""

import json
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from io import StringIO
from typing import TYPE_CHECKING, TextIO, cast

import typer

from muster.bus.printable import printable, printable_json, printable_lines
from muster.cli import layout
from muster.cli.errors import usage
from muster.cli.options import Output
from muster.cli.presentation import Color, Encoding, chosen

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from muster.schemas.record import Document

Row = Sequence[str]
IDENTITY_FIELDS = ("id", "uuid", "name", "service", "cluster")
"""`-o name` prints the first of these fields that an object has."""
STATE_COLUMNS = frozenset({"ST", "STATE", "PHASE"})
STATE_COLORS = {
    **dict.fromkeys(("R", "CD", "running", "succeeded", "idle", "alloc", "mix", "open", "active", "ready"), "green"),
    **dict.fromkeys(
        ("PD", "CF", "CG", "SU", "queued", "placed", "stopping", "submitted", "drain", "draining"), "yellow"
    ),
    **dict.fromkeys(("F", "TO", "failed", "timed-out", "down", "lost", "closed", "quarantined"), "red"),
}
"""Colors of states on terminals."""
PAGER = ("less", "-FRX")


class _Checked:
    """Standard output that raises CliError if it cannot be written, so that a full disk is an error like others."""

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
    """Raise CliError if standard output cannot be written."""
    with redirect_stdout(cast("TextIO", _Checked(sys.stdout))):
        yield


def drop_output() -> None:
    """Drop unwritten output, which the interpreter would otherwise write again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_line(line: str = "") -> None:
    """Print one line of a result; line breaks in it are escaped."""
    typer.echo(printable(line))


def print_lines(lines: str) -> None:
    """Print a document with its line breaks, such as YAML that Muster wrote."""
    typer.echo(printable_lines(lines), nl=not lines.endswith("\n"))


def print_note(note: str) -> None:
    """Print one line on stderr."""
    typer.echo(printable(note), err=True)


def print_error(error: Exception | str) -> None:
    """Print an error on stderr; only its first line has the prefix of Muster."""
    first, *rest = str(error).splitlines() or [""]
    typer.echo("\n  ".join([f"muster: {printable(first)}", *map(printable, rest)]), err=True)


def console() -> "Console":
    """Return a console for results."""
    return _console(soft_wrap=True)


def talk() -> "Console":
    """Return a console for progress, on stderr."""
    return _console(stderr=True)


def _console(*, stderr: bool = False, soft_wrap: bool = False) -> "Console":
    """Return a console without markup that escapes control characters in every segment."""
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
    """Ask for confirmation on stderr. Raises CliError (usage) unless the answer is yes, also without a terminal."""
    try:
        agreed = typer.confirm(printable(question), err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise usage("--yes: not confirmed, no change was applied; give --yes to skip the confirmation")


def emit_model(model: "Document") -> None:
    """Print a view as a document."""
    _emit(model.model_dump_json())


def emit_models(models: Iterable["Document"]) -> None:
    """Print views as one document, a list."""
    _emit("[" + ",\n".join(model.model_dump_json() for model in models) + "]")


def emitted(found: "Document | Sequence[Document]", form: Output) -> bool:
    """Print views if the form is a document; return whether it is."""
    if form is not Output.JSON:
        return False
    if isinstance(found, Sequence):
        emit_models(found)
    else:
        emit_model(found)
    return True


def emit_lines(models: Iterable["Document"]) -> None:
    """Print views as one document each, for endless results."""
    for model in models:
        _emit(model.model_dump_json())


def emit_json(value: "JsonValue | Mapping[str, object]", *, indent: int | None = 2) -> None:
    """Print a JSON value as a document."""
    _emit(json.dumps(value, indent=indent))


def _emit(document: str) -> None:
    """Print a JSON document in the chosen encoding and order."""
    shown = chosen()
    if shown.encoding is Encoding.JSON and not shown.sort_by:
        typer.echo(printable_json(document))
        return
    root: JsonValue = json.loads(document)
    objects = _objects(root)
    if shown.sort_by:
        objects.sort(key=lambda one: _field_key(one, shown.sort_by), reverse=shown.sort_by.startswith("-"))
    match shown.encoding:
        case Encoding.JSON:
            typer.echo(printable_json(json.dumps(root)))
        case Encoding.YAML:
            import yaml

            print_lines(yaml.dump(root, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))
        case Encoding.NAME:
            for one in objects:
                print_line(_identity(one))
        case Encoding.JSONPATH:
            assert shown.path is not None, "a JSONPath has a template"
            items = (
                {"items": objects}
                if isinstance(root, list)
                else {"items": objects, **cast("dict[str, JsonValue]", root)}
            )
            print_lines(shown.path.apply(cast("JsonValue", items)))


def _objects(root: "JsonValue") -> "list[JsonValue]":
    """Return the listed objects: of a list, the first list of an object without identity, or the object itself."""
    if isinstance(root, list):
        return root
    if isinstance(root, dict) and not any(name in root for name in IDENTITY_FIELDS):
        return next((value for value in root.values() if isinstance(value, list)), [root])
    return [root]


def _identity(one: "JsonValue") -> str:
    found = next((one[name] for name in IDENTITY_FIELDS if one.get(name)), None) if isinstance(one, dict) else None
    if found is None:
        raise usage("--output name: the result has no id or name; use json or yaml")
    return str(found)


def _field_key(one: "JsonValue", sort_by: str) -> tuple[int, float, str]:
    """Return the order of an object. Raises CliError if it has no such field."""
    name = sort_by.removeprefix("-")
    if not isinstance(one, dict) or name not in one:
        raise layout.unknown_field(sort_by, list(one) if isinstance(one, dict) else [])
    value = one[name]
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, value if isinstance(value, str) else json.dumps(value))


def text(line: str, *, style: str = "", no_wrap: bool = False) -> "Text":
    """Return one line for a rich display."""
    from rich.text import Text

    return Text(printable(line), style=style, no_wrap=no_wrap)


def grid(headings: Sequence[str], rows: Iterable[Row], *, right: Collection[str] = ()) -> "Table":
    """Return a table for a rich display; without headings if none are given. right: columns of numbers."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, show_header=bool(headings), header_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        made.add_row(*map(text, row))
    return made


def table(headings: Sequence[str], rows: Iterable[Row], *, right: Iterable[str] = (), title: str = "") -> None:
    """Print a table. right: headings of columns of numbers. On a terminal, it fits the width; piped, it is complete."""
    shown = chosen()
    cells = [[printable(cell) for cell in row] for row in rows]
    if shown.sort_by and (shown.sort_by.removeprefix("-").upper() in headings or not _sorted.get()):
        cells = [list(row) for row in layout.ordered(headings, cells, shown.sort_by)]
        _sorted.set(True)
    if shown.csv:
        _print_csv([headings, *cells] if shown.headers else cells)
        return
    heads = [printable(heading) for heading in headings]
    natural = [
        max(map(_width, (*column, head) if shown.headers else column), default=0)
        for head, column in zip(heads, zip(*cells, strict=True) if cells else [()] * len(heads), strict=True)
    ]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    columns = layout.fitted(heads, natural, room)
    numbers = frozenset(right)
    alignments = [heads[at] in numbers for at in columns.shown]
    styles = [STATE_COLORS if heads[at] in STATE_COLUMNS else {} for at in columns.shown] if _colored() else None
    lines = [_bold(printable(title))] if title else []
    if shown.headers:
        lines.append(_bold(_line(heads, columns, alignments, None)))
    lines += [_line(row, columns, alignments, styles) for row in cells]
    if lines:
        typer.echo("\n".join(lines), color=True)
    if len(columns.shown) < len(heads):
        hidden = ", ".join(head for at, head in enumerate(heads) if at not in columns.shown)
        print_note(f"columns omitted on this narrow terminal: {hidden}")


_sorted: ContextVar[bool] = ContextVar("table_was_sorted", default=False)
"""Whether a table was sorted: the first table of a command decides whether the field of --sort-by exists."""


def _line(
    row: Row, columns: layout.Columns, alignments: Sequence[bool], styles: Sequence[Mapping[str, str]] | None
) -> str:
    """Return one row, cut and padded to the columns."""
    parts = []
    last = len(columns.shown) - 1
    for place, (at, width) in enumerate(zip(columns.shown, columns.widths, strict=True)):
        cell = _cut(row[at], width)
        spaces = " " * (width - _width(cell))
        if styles is not None and (color := styles[place].get(cell)):
            cell = typer.style(cell, fg=color)
        parts.append(spaces + cell if alignments[place] else cell if place == last else cell + spaces)
    return layout.SEPARATOR.join(parts)


def _width(cell: str) -> int:
    """Return the number of terminal columns of a text."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def _cut(cell: str, width: int) -> str:
    if _width(cell) <= width:
        return cell
    from rich.cells import set_cell_size

    return set_cell_size(cell, width - 1) + "…"


def _print_csv(rows: Iterable[Row]) -> None:
    import csv

    written = StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    print_lines(written.getvalue())


def _colored() -> bool:
    """Return whether results are colored."""
    color = chosen().color
    if color is Color.AUTO:
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return color is Color.ALWAYS


def _bold(line: str) -> str:
    return typer.style(line, bold=True) if _colored() else line


def details(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; empty values are omitted."""
    shown = [(printable(name), printable(value)) for name, value in pairs if value]
    width = max((_width(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{_bold(name + ' ' * (width - _width(name)))}  {value}", color=True)


def heading(title: str) -> None:
    """Print the title of a section."""
    typer.echo(_bold(printable(title)), color=True)


class _Held:
    """Standard output whose text is kept, to be shown in a pager."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held = StringIO()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._held.write(text)

    def flush(self) -> None:
        """Keep the text until the command has ended."""

    def text(self) -> str:
        """Return what was written."""
        return self._held.getvalue()


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed in a pager if it is longer than the terminal."""
    _sorted.set(False)
    stream, words = sys.stdout, _pager()
    if not words or not stream.isatty():
        yield
        return
    held = _Held(stream)
    try:
        with redirect_stdout(cast("TextIO", held)):
            yield
    finally:
        content = held.text()
        if content.count("\n") < shutil.get_terminal_size().lines or not _shown_by(words, content):
            stream.write(content)
            stream.flush()


def _pager() -> Sequence[str]:
    """Return the command line of the pager; empty for none."""
    if not chosen().pager:
        return ()
    for variable in ("MUSTER_PAGER", "PAGER"):
        if variable in os.environ:
            import shlex

            return shlex.split(os.environ[variable])
    return PAGER if shutil.which(PAGER[0]) else ()


def _shown_by(words: Sequence[str], content: str) -> bool:
    """Run the pager; return False if it cannot be started."""
    import subprocess

    try:
        with interrupting_child():
            subprocess.run(words, input=content.encode(), env={"LESS": "FRX", **os.environ}, check=False)  # noqa: S603
    except OSError as error:
        print_note(f"PAGER: {words[0]} cannot be started ({error.strerror}); the result follows without it")
        return False
    return True


@contextmanager
def interrupting_child() -> Iterator[None]:
    """Leave Ctrl-C to a program that runs on this terminal."""
    import signal

    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which the program would inherit
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
