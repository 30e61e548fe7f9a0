"""Options that many commands share, written once."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.stack.state_dir import default_state_dir


class Output(StrEnum):
    """How a read is printed. json: the shapes of muster.schemas.views; wide: the table with more columns."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


def chosen_state_dir() -> Path:
    """$MUSTER_STATE_DIR, else `muster` in the user's state directory."""
    named = os.environ.get("MUSTER_STATE_DIR")
    return Path(named) if named else default_state_dir(os.environ, home=Path.home())


StateDir = Annotated[
    Path,
    typer.Option(
        "--state-dir",
        default_factory=chosen_state_dir,
        show_default="$MUSTER_STATE_DIR or the user's state directory",
        help="Directory of the stack that the command speaks to.",
        file_okay=False,
        resolve_path=True,
    ),
]
As = Annotated[Output, typer.Option("--output", "-o", help="table, wide, or json (stable shapes).")]
JobIdArgument = Annotated[str, typer.Argument(help="A job's id, as `submit` printed it.", metavar="ID")]
Team = Annotated[str, typer.Option("--team", help="Only this team's.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Cluster = Annotated[str, typer.Option(help="Of which cluster; by default the first one.")]
"""Of commands that one cluster's services answer."""
Reason = Annotated[str, typer.Option(help="Kept in the log.")]
