"""Commands for event logs: `muster log`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, Reason, StateDir, Yes, listing

app = typer.Typer(
    name="log", help="Event logs: export, import, trim, skip, repair, dead letters.", no_args_is_help=True
)

LogArgument = Annotated[
    str, typer.Option("--log", help="`fed`, or the name of a cluster. Default: the log of the cluster.")
]


@app.callback()
def log() -> None:
    """Event logs: export, import, trim, skip, repair, dead letters."""


@app.command("export")
def export_log(
    *,
    file: Annotated[Path, typer.Argument(help="Output file of compressed JSON lines; must not exist.", metavar="FILE")],
    state_dir: StateDir,
    name: LogArgument = "",
) -> None:
    """Export a log to a file, for backups and bug reports."""
    from muster.cli import log_files

    log_files.export(state_dir, file, name)


@app.command("import")
def import_log(
    *,
    file: Annotated[Path, typer.Argument(help="File written by `muster log export`.", exists=True, dir_okay=False)],
    state_dir: StateDir,
    name: LogArgument = "",
) -> None:
    """Import a file into an empty log."""
    from muster.cli import log_files

    log_files.restore(state_dir, file, name)


@app.command()
def trim(
    *,
    archive: Annotated[Path, typer.Option(help="Archive file for the removed facts; must not exist.")],
    state_dir: StateDir,
    name: LogArgument = "",
    yes: Yes = False,
) -> None:
    """Move the facts before the second latest checkpoint to a file, except those of the last day."""
    from muster.cli import log_files

    log_files.trim(state_dir, name, archive=archive, yes=yes)


@app.command()
def skip(
    *,
    seq: Annotated[int, typer.Argument(min=1, help="Sequence number of the fact in its log.")],
    service: Annotated[str, typer.Option(help="Service that stopped at the fact.")],
    state_dir: StateDir,
    name: LogArgument = "",
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Let one service skip one fact that it cannot fold; the fact remains for all other services."""
    from muster.cli import log_files

    log_files.skip(state_dir, name, seq=seq, service=service, reason=reason, yes=yes)


@app.command("repair-fence")
def repair_fence(
    *,
    service: Annotated[str, typer.Option(help="Service whose fence is unreadable.")],
    state_dir: StateDir,
    name: LogArgument = "",
    yes: Yes = False,
) -> None:
    """Replace an unreadable fence, so that the service can elect a leader again."""
    from muster.cli import log_files

    log_files.repair_fence(state_dir, name, service=service, yes=yes)


@app.command()
@listing
def dead(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of dead letters, newest first.")] = 50,
) -> None:
    """List dead letters: messages that could not be read as facts, with the reason."""
    from muster.cli import log_files

    log_files.show_dead_letters(state_dir, output, limit=limit)
