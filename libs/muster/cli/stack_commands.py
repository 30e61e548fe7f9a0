"""Commands for a stack on this machine: `muster up`, `down`, `status` and `serve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir, spread

_FLEET = "Simulated fleet"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (up, down, status, serve):
        app.command()(command)


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetOptions:
    """Options of the simulated fleet. None: as recorded in the state directory."""

    nodes: Annotated[int | None, typer.Option(min=0, help="Number of nodes. Default: 64.", rich_help_panel=_FLEET)] = (
        None
    )
    gpus_per_node: Annotated[
        int | None, typer.Option(min=0, max=64, help="GPUs per node. Default: 8.", rich_help_panel=_FLEET)
    ] = None
    rack_size: Annotated[
        int | None, typer.Option(min=1, help="Nodes per rack. Default: 8.", rich_help_panel=_FLEET)
    ] = None
    nvlink_size: Annotated[
        int | None, typer.Option(min=0, help="Nodes per NVLink domain. Default: no domains.", rich_help_panel=_FLEET)
    ] = None
    seed: Annotated[int | None, typer.Option(help="Random seed of the simulation.", rich_help_panel=_FLEET)] = None
    failures_per_day: Annotated[
        float | None, typer.Option(min=0, help="Failures per node and day. Default: 0.", rich_help_panel=_FLEET)
    ] = None
    composable: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="Nodes that can attach GPUs from the pool. Default: 2.",
            rich_help_panel=_FLEET,
        ),
    ] = None
    pool: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="GPUs in the pool. Default: 8.", rich_help_panel=_FLEET)
    ] = None


@spread
def up(
    *,
    state_dir: StateDir,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete logs, jobs and tokens of the state directory first.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background; return when the stack is ready.")
    ] = False,
    split: Annotated[bool, typer.Option("--split", help="Run one process per service.")] = False,
    fleet: FleetOptions,
    clusters: Annotated[
        str,
        typer.Option(
            help="Start a federation of these clusters, such as `east,west`, each with its own services.",
            metavar="NAME,...",
        ),
    ] = "",
    http_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="HTTP port of the gateway; 0: any free port.")
    ] = None,
    queues: Annotated[
        Path | None,
        typer.Option(
            help="Queue file to apply. Default: examples/queues.yaml, at the first start only.", dir_okay=False
        ),
    ] = None,
    examples: Annotated[
        bool | None,
        typer.Option("--examples/--no-examples", help="Submit the example jobs. Default: only without --detach."),
    ] = None,
) -> None:
    """Start a stack on this machine and show its state until Ctrl-C, which stops it. The state is kept."""
    from muster.cli import starting

    plan = starting.Plan(
        options=starting.options(
            state_dir,
            fresh=fresh,
            split=split,
            http_port=http_port,
            fleet=fleet,
            clusters=tuple(filter(None, (name.strip() for name in clusters.split(",")))),
        ),
        queues=queues,
        examples=not detach if examples is None else examples,
    )
    (starting.in_background if detach else starting.in_foreground)(plan)


def down(*, state_dir: StateDir) -> None:
    """Stop the stack of a state directory; the state is kept."""
    from muster.cli import starting

    starting.stop(state_dir)


def status(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the processes of the stack with addresses and memory; exit code 4 if none is running."""
    from muster.cli import starting

    starting.show_status(state_dir, output)


def serve(
    service: Annotated[
        str, typer.Argument(help="Name of the service, or `all` for all in one process.", metavar="SERVICE|all")
    ],
    *,
    state_dir: StateDir,
) -> None:
    """Run one service of Muster, or all in one process, with the settings of the state directory, until SIGTERM.

    `muster up` starts all services for you. `muster run` submits a job.
    """
    from muster.cli import starting

    starting.serve(service, state_dir)
