"""`muster simulate`: the schedulers' own code in virtual time, on scenarios, traces and a week that never was."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output

app = typer.Typer(
    name="simulate",
    help="The scheduler's own code in virtual time: a scenario file, a trace, a synthetic week.",
    no_args_is_help=True,
)


@app.callback()
def simulate() -> None:
    """The scheduler's own code in virtual time."""


@app.command()
def scenario(
    file: Annotated[Path, typer.Argument(help="A scenario (YAML or JSON); `-` reads standard input.")],
    *,
    after: Annotated[float, typer.Option(min=0, help="Let so many seconds pass before printing; jobs run on.")] = 0.0,
    check: Annotated[bool, typer.Option("--check", help="Refuse (3) what differs from the file's `expect`.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Decide until nothing changes any more, and print where every job and queue stands.

    JSON: {jobs: {name: {state, nodes, devices, replicas, preempted_for, reason, detail, expected_start_s?}},
    queues: {name: {held, quota, share, pending, running}}, stable, rounds}. Exit code 3 if it never becomes stable.
    The format is described in docs/concepts/simulating.md.
    """
    from muster.cli import simulate_scenario

    simulate_scenario.run(file, after_s=after, check=check, output=output)
