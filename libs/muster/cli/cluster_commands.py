"""Commands for federations: `muster cluster`, `muster routes` and `muster reroute`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, Reason, StateDir, listing

clusters = typer.Typer(
    name="cluster", help="List, drain and resume the clusters of the federation.", no_args_is_help=True
)
routes = typer.Typer(
    name="routes",
    help="Show and set routing rules and the limits of teams over all clusters.",
    invoke_without_command=True,
)
GROUPS = (clusters, routes)

_Cluster = Annotated[str, typer.Argument(help="Cluster name.", metavar="CLUSTER", callback=values.cluster)]
_File = Annotated[Path, typer.Argument(help="Routing rules and team limits, in YAML or JSON.", metavar="FILE")]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for group in GROUPS:
        app.add_typer(group)
    app.command()(reroute)


@clusters.callback()
def cluster() -> None:
    """List, drain and resume the clusters of the federation."""


@clusters.command("list")
@listing
def list_clusters(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List the clusters of the federation, and the jobs that no cluster has yet, with reasons."""
    from muster.cli import clustering

    clustering.show(state_dir, output)


@clusters.command()
def drain(
    *,
    name: _Cluster,
    state_dir: StateDir,
    to: Annotated[
        list[str] | None,
        typer.Option(help="Target cluster; repeat in order of preference.", callback=values.cluster),
    ] = None,
    reason: Reason = "",
    output: As = Output.TABLE,
) -> None:
    """Drain a cluster: route no new jobs to it, and move its pending jobs to other clusters (operators and admins).

    Moved jobs keep their ids and submission times. Running jobs continue on the drained cluster until they end.
    """
    from muster.cli import clustering

    clustering.drain(state_dir, name, to=to or [], reason=reason, form=output)


@clusters.command()
def resume(*, name: _Cluster, state_dir: StateDir, reason: Reason = "", output: As = Output.TABLE) -> None:
    """Resume a drained cluster: route jobs to it again (operators and admins)."""
    from muster.cli import clustering

    clustering.resume(state_dir, name, reason=reason, form=output)


@routes.callback()
def where_jobs_go(context: typer.Context, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the routing rules, in order of evaluation: the first match applies."""
    if context.invoked_subcommand is None:
        from muster.cli import clustering

        clustering.show_routes(state_dir, output)


@routes.command("show")
def show_routes(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the routing rules, as `muster routes` does; `-o json` prints input for `muster routes set`."""
    from muster.cli import clustering

    clustering.show_routes(state_dir, output)


@routes.command("set")
def set_routes(
    *,
    file: _File,
    state_dir: StateDir,
    based_on: Annotated[
        int, typer.Option(min=0, help="Version the change is based on; refuse if another one is current. 0: any.")
    ] = 0,
) -> None:
    """Replace the routing rules (operators and admins). They apply to jobs that have no cluster yet."""
    from muster.cli import clustering

    clustering.set_routes(state_dir, file, based_on=based_on)


@routes.command("check")
def check_routes(*, file: _File, state_dir: StateDir) -> None:
    """Validate routing rules without setting them: check each field, and that every job matches some rule.

    If a stack is running, the rules may only name clusters of its federation.
    """
    from muster.cli import clustering

    clustering.check_routes(state_dir, file)


def reroute(
    *,
    job: Annotated[str, typer.Argument(help="Job id.", metavar="JOB", callback=values.job_id)],
    state_dir: StateDir,
    to: Annotated[
        str,
        typer.Option(
            help="Target cluster. Default: chosen by the routing rules.", metavar="CLUSTER", callback=values.cluster
        ),
    ] = "",
    reason: Reason = "",
    output: As = Output.TABLE,
) -> None:
    """Move a pending job to another cluster. It keeps its id and submission time."""
    from muster.cli import clustering

    clustering.reroute(state_dir, job, to=to, reason=reason, form=output)
