"""Define the options that several commands share."""

import os
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.stack.state_dir import default_state_dir


class Output(StrEnum):
    """Output format of a command. json: the models of muster.schemas.views; wide: the table with more columns."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


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
As = Annotated[Output, typer.Option("--output", "-o", help="Output format: table, wide (more columns), or json.")]
JobIdArgument = Annotated[str, typer.Argument(help="Job id.", metavar="ID", callback=values.job_id)]
Team = Annotated[str, typer.Option("--team", help="Filter by team.", callback=values.team)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
Cluster = Annotated[str, typer.Option(help="Cluster. Default: the first one.", callback=values.cluster)]
"""For commands that the services of a single cluster answer."""
Reason = Annotated[str, typer.Option(help="Reason, recorded in the log.", callback=values.reason)]


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
