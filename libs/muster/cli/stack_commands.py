"""`muster up`, `down`, `status`, `serve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir, spread

_FLEET = "The simulated fleet"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (up, down, status, serve):
        app.command()(command)


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetOptions:
    """The simulated fleet; None: as the state directory remembers it."""

    nodes: Annotated[int | None, typer.Option(min=0, help="By default 64.", rich_help_panel=_FLEET)] = None
    gpus_per_node: Annotated[int | None, typer.Option(min=0, max=64, help="By default 8.", rich_help_panel=_FLEET)] = (
        None
    )
    rack_size: Annotated[int | None, typer.Option(min=1, help="Nodes per rack; 8.", rich_help_panel=_FLEET)] = None
    nvlink_size: Annotated[
        int | None, typer.Option(min=0, help="Nodes per NVLink domain; none.", rich_help_panel=_FLEET)
    ] = None
    seed: Annotated[int | None, typer.Option(help="Of all simulated chance.", rich_help_panel=_FLEET)] = None
    failures_per_day: Annotated[
        float | None, typer.Option(min=0, help="Per node; by default none.", rich_help_panel=_FLEET)
    ] = None
    composable: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="Nodes that take GPUs from a pool: 2 at the first start; 0: none.",
            rich_help_panel=_FLEET,
        ),
    ] = None
    pool: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="GPUs in that pool; 8.", rich_help_panel=_FLEET)
    ] = None


@spread
def up(
    *,
    state_dir: StateDir,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget everything first: logs, jobs, tokens.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Come back when it is ready.")] = False,
    split: Annotated[bool, typer.Option("--split", help="One process per service.")] = False,
    fleet: FleetOptions,
    clusters: Annotated[
        str,
        typer.Option(
            help="Several clusters, such as `east,west`: a broker and the services of each, and a centre for all.",
            metavar="NAME,...",
        ),
    ] = "",
    http_port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0 takes any free one.")] = None,
    queues: Annotated[
        Path | None,
        typer.Option(
            help="Queues to ask for; by default examples/queues.yaml, at the first start only.", dir_okay=False
        ),
    ] = None,
    examples: Annotated[
        bool | None, typer.Option("--examples/--no-examples", help="Submit examples/ (default: unless detached).")
    ] = None,
) -> None:
    """Start everything on this machine and show it live until Ctrl-C, which stops it cleanly. State survives."""
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
    """Stop the stack of a state directory; its state stays."""
    from muster.cli import starting

    starting.stop(state_dir)


def status(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Say what runs, where it listens, and how much memory it takes; exit 4 if nothing runs."""
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
