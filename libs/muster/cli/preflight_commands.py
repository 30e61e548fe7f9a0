"""Commands for node checks before jobs start: `muster preflight`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir, listing

_HELP = "Node checks before jobs start: run and list them."
app = typer.Typer(name="preflight", help=_HELP, no_args_is_help=True)


@app.callback()
def preflight() -> None:
    """Node checks before jobs start: run and list them."""


@app.command("list")
@listing
def list_(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List the suites and their checks."""
    from muster.cli import preflighting

    preflighting.list_suites(state_dir, output)


@app.command()
def run(
    *,
    state_dir: StateDir,
    suite: Annotated[
        str,
        typer.Option(
            help="Suite to run. Default: the plan in MUSTER_PREFLIGHT_PLAN, which pods have.", callback=values.name
        ),
    ] = "",
    report: Annotated[
        Path | None,
        typer.Option(
            help="File for the report. Default: the termination message of the pod.", dir_okay=False, writable=True
        ),
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Run the checks on this machine.

    With --suite, exit code 1 if a check failed, 3 if one could not run. Without it (in a pod), always exit code 0.
    """
    from muster.cli import preflighting

    preflighting.run_here(state_dir, suite, report, output)


@app.command()
def gate(
    *,
    file: Annotated[Path, typer.Option(help="File with the annotations of the pod (downward API).", dir_okay=False)],
    poll_s: Annotated[float, typer.Option(min=0.05, max=60, help="Poll interval, in seconds.")] = 1.0,
) -> None:
    """Wait until the verdict allows the container of the job to start."""
    from muster.cli import preflighting

    preflighting.wait_at_gate(file, poll_s=poll_s)
