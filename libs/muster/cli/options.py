"""Define the options that several commands share."""

import os
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.presentation import Color, Encoding, Presentation, choose, chosen
from muster.stack.state_dir import default_state_dir


class Output(StrEnum):
    """Form that a command prints; muster.cli.output encodes a document as JSON, YAML, names or JSONPath."""

    TABLE = "table"
    WIDE = "wide"
    """The table with more columns, also for CSV."""
    JSON = "json"
    """The documents: models of muster.schemas.views."""


FORMATS = "table, wide, csv, json, yaml, name, jsonpath=TEMPLATE"


def read_format(text: str) -> Output:
    """Parse --output, and note the encoding. Raises CliError."""
    word, _, template = text.partition("=")
    if word in (Output.TABLE, Output.WIDE) and not template:
        choose(Presentation())
        return Output(word)
    if word == "csv" and not template:
        choose(Presentation(csv=True))
        return Output.WIDE
    if word == Encoding.JSONPATH and template:
        from muster.cli.jsonpath import JsonPathError, parse

        try:
            choose(Presentation(encoding=Encoding.JSONPATH, path=parse(template)))
        except JsonPathError as error:
            raise usage(f"--output jsonpath: {error}") from error
    elif word in (Encoding.JSON, Encoding.YAML, Encoding.NAME) and not template:
        choose(Presentation(encoding=Encoding(word)))
    else:
        raise usage(f"--output: {values.shown(text)} is not a format; use {FORMATS}")
    return Output.JSON


def chosen_state_dir() -> Path:
    """Return $MUSTER_STATE_DIR, or else `muster` in the user's state directory."""
    named = os.environ.get("MUSTER_STATE_DIR")
    return Path(named) if named else default_state_dir(os.environ, home=Path.home())


StateDir = Annotated[
    Path,
    typer.Option(
        "--state-dir",
        default_factory=chosen_state_dir,
        show_default="$MUSTER_STATE_DIR or the user's state directory",
        help="State directory of the stack.",
        file_okay=False,
        resolve_path=True,
    ),
]
As = Annotated[
    Output,
    typer.Option("--output", "-o", help=f"Output format: {FORMATS}.", parser=read_format, metavar="FORMAT"),
]
JobIdArgument = Annotated[str, typer.Argument(help="Job id.", metavar="ID", callback=values.job_id)]
Team = Annotated[str, typer.Option("--team", help="Filter by team.", callback=values.team)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
Cluster = Annotated[str, typer.Option(help="Cluster. Default: the first one.", callback=values.cluster)]
"""For commands that the services of a single cluster answer."""
Reason = Annotated[str, typer.Option(help="Reason, recorded in the log.", callback=values.reason)]


_DISPLAY = "Display"


@dataclass(frozen=True, kw_only=True, slots=True)
class Display:
    """Options of every command that lists objects."""

    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Omit the column headings.", rich_help_panel=_DISPLAY)
    ] = False
    sort_by: Annotated[
        str,
        typer.Option(
            help="Sort by a column, or for json and yaml by a field; -FIELD sorts in descending order.",
            metavar="FIELD",
            rich_help_panel=_DISPLAY,
        ),
    ] = ""
    no_pager: Annotated[
        bool,
        typer.Option(
            "--no-pager",
            help="Do not show long results in $MUSTER_PAGER, $PAGER or less; MUSTER_PAGER= does the same.",
            rich_help_panel=_DISPLAY,
        ),
    ] = False
    color: Annotated[
        Color, typer.Option(help="Color states: auto (terminals, unless NO_COLOR is set).", rich_help_panel=_DISPLAY)
    ] = Color.AUTO


def listing(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of `Display`, which apply to all that it prints."""
    own, more = signature(command), signature(Display).parameters

    @wraps(command)
    def run(**given: object) -> None:
        from muster.cli.output import paged

        choose(
            replace(
                chosen(),
                headers=not given.pop("no_headers"),
                sort_by=str(given.pop("sort_by")),
                pager=not given.pop("no_pager"),
                color=Color(str(given.pop("color"))),
            )
        )
        with paged():
            command(**given)

    shown = [*own.parameters.values(), *more.values()]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    run.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return run


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of each parameter that is a dataclass (keywords only) as options."""
    own = signature(command)
    annotations = {name: one.annotation for name, one in own.parameters.items()}
    groups = {name: one for name, one in annotations.items() if isinstance(one, type) and is_dataclass(one)}
    fields = {name: signature(group).parameters for name, group in groups.items()}
    shown = [one for name, parameter in own.parameters.items() for one in fields.get(name, {name: parameter}).values()]

    @wraps(command)
    def run(**given: object) -> None:
        made = {name: group(**{field: given.pop(field) for field in fields[name]}) for name, group in groups.items()}
        command(**given, **made)

    run.__annotations__ = {one.name: one.annotation for one in shown}
    run.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return run
