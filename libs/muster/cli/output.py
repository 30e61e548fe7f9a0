"""What a command prints: JSON in stable shapes for programs, tables for people. Results on stdout, talk on stderr."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from muster.cli.errors import usage

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console

    from muster.schemas.base import Wire

Row = Sequence[str]
PIPED_WIDTH = 1000  # columns: what reads a pipe cuts for itself


def console() -> "Console":
    """For results."""
    from rich.console import Console

    return Console(soft_wrap=True, highlight=False)


def talk() -> "Console":
    """For progress and notes: stderr, so that stdout can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def confirm(question: str) -> None:
    """Ask on stderr. Raises CliError (usage) unless somebody says yes: in a script nobody is there to be asked."""
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise usage("--yes: nothing was done, for nobody agreed; give it to go on without being asked")


def emit_model(model: "Wire") -> None:
    """One view as one JSON object."""
    typer.echo(model.model_dump_json())


def emit_models(models: Iterable["Wire"]) -> None:
    """Views as one JSON array."""
    typer.echo("[" + ",\n".join(model.model_dump_json() for model in models) + "]")


def emit_lines(models: Iterable["Wire"]) -> None:
    """Views as JSON lines: for what has no end."""
    for model in models:
        typer.echo(model.model_dump_json())


def emit_json(value: "JsonValue | Mapping[str, JsonValue]") -> None:
    """A JSON value, indented."""
    typer.echo(json.dumps(value, indent=2))


def table(headings: Sequence[str], rows: Iterable[Row], *, right: Iterable[str] = (), title: str = "") -> None:
    """A plain table. right: headings of columns that hold numbers. Piped, it is not cut to a screen's width."""
    from rich.table import Table

    out = console()
    numbers = frozenset(right)
    grid = Table(box=None, pad_edge=False, title=title or None, title_justify="left", header_style="bold")
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        grid.add_row(*(cell.replace("[", "\\[") for cell in row))
    if not out.is_terminal:
        out.width = PIPED_WIDTH
    out.print(grid)


def details(pairs: Iterable[tuple[str, str]]) -> None:
    """Name and value, one pair a line; empty values are left out."""
    from rich.markup import escape

    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    out = console()
    for name, value in shown:
        out.print(f"[bold]{name:<{width}}[/]  {escape(value)}")
