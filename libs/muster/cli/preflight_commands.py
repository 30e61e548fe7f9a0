"""`muster preflight`: the checks before the first step of jobs, as pods run them and as people may."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir

_HELP = "Checks of nodes: run them here, list them."
app = typer.Typer(name="preflight", help=_HELP, no_args_is_help=True)


@app.callback()
def preflight() -> None:
    """Checks of nodes: run them here, list them."""


@app.command("list")
def list_(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List the suites and the checks that there are."""
    from muster.cli import preflighting

    preflighting.list_suites(state_dir, output)


@app.command()
def run(
    *,
    state_dir: StateDir,
    suite: Annotated[
        str,
        typer.Option(
            help="Of which suite; by default what the pod was told (MUSTER_PREFLIGHT_PLAN).", callback=values.name
        ),
    ] = "",
    report: Annotated[
        Path | None, typer.Option(help="Where the report goes; in a pod its termination message.", dir_okay=False)
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Run checks on this machine. In a pod it ends well whatever they find; with --suite: 1 where one failed, 3 where
    one could not run.
    """
    from muster.cli import preflighting

    preflighting.run_here(state_dir, suite, report, output)


@app.command()
def gate(
    *,
    file: Annotated[Path, typer.Option(help="That shows the annotation of the pod.", dir_okay=False)],
    poll_s: Annotated[float, typer.Option(min=0.05, max=60, help="Between two looks.")] = 1.0,
) -> None:
    """Wait until the verdict lets the pod's first step begin."""
    from muster.cli import preflighting

    preflighting.wait_at_gate(file, poll_s=poll_s)
