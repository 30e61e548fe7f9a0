"""`muster log`: backup, restore, trimming, facts that cannot be folded, fences that cannot be read, dead letters."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, Reason, StateDir, Yes

app = typer.Typer(
    name="log", help="The event logs: export, import, trim, skip, repair, dead letters.", no_args_is_help=True
)

LogArgument = Annotated[str, typer.Option("--log", help="`fed`, or a cluster's name; by default the cluster's log.")]


@app.callback()
def log() -> None:
    """The event logs: export, import, trim, skip, repair, dead letters."""


@app.command("export")
def export_log(
    *,
    file: Annotated[Path, typer.Argument(help="Compressed JSON lines; must not exist yet.", metavar="FILE")],
    state_dir: StateDir,
    name: LogArgument = "",
) -> None:
    """Write a log to a file: for backup, for a bug report, before trimming."""
    from muster.cli import log_files

    log_files.export(state_dir, file, name)


@app.command("import")
def import_log(
    *,
    file: Annotated[Path, typer.Argument(help="What `log export` wrote.", exists=True, dir_okay=False)],
    state_dir: StateDir,
    name: LogArgument = "",
) -> None:
    """Fill an empty log from a file."""
    from muster.cli import log_files

    log_files.restore(state_dir, file, name)


@app.command()
def trim(
    *,
    archive: Annotated[Path, typer.Option(help="Where the deleted facts go; must not exist yet.")],
    state_dir: StateDir,
    name: LogArgument = "",
    yes: Yes = False,
) -> None:
    """Move the facts before the older checkpoint to a file; never those of the last day."""
    from muster.cli import log_files

    log_files.trim(state_dir, name, archive=archive, yes=yes)


@app.command()
def skip(
    *,
    seq: Annotated[int, typer.Argument(min=1, help="Sequence of the fact in its log.")],
    service: Annotated[str, typer.Option(help="The service that stopped at it.")],
    state_dir: StateDir,
    name: LogArgument = "",
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Have one service step over one fact that it cannot fold; every other service keeps it."""
    from muster.cli import log_files

    log_files.skip(state_dir, name, seq=seq, service=service, reason=reason, yes=yes)


@app.command("repair-fence")
def repair_fence(
    *,
    service: Annotated[str, typer.Option(help="The service that nobody can lead.")],
    state_dir: StateDir,
    name: LogArgument = "",
    yes: Yes = False,
) -> None:
    """Replace a fence that no service can read, so that the service can be led again."""
    from muster.cli import log_files

    log_files.repair_fence(state_dir, name, service=service, yes=yes)


@app.command()
def dead(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Newest shown.")] = 50,
) -> None:
    """Show the dead letters: messages that claimed to be facts and could not be read, and why."""
    from muster.cli import log_files

    log_files.show_dead_letters(state_dir, output, limit=limit)
