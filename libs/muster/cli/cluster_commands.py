"""`muster cluster`: clusters of a federation. `muster routes`: where jobs go. `muster reroute`: move one."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, Reason, StateDir

clusters = typer.Typer(name="cluster", help="Clusters of the federation: drain and resume them.", no_args_is_help=True)
routes = typer.Typer(
    name="routes", help="Where jobs go, and what teams may have over all clusters.", invoke_without_command=True
)
GROUPS = (clusters, routes)

_Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", metavar="CLUSTER", callback=values.cluster)]
_File = Annotated[Path, typer.Argument(help="Rules and teams, as YAML or JSON.", metavar="FILE")]


def register(app: typer.Typer) -> None:
    """Add the groups and the command to the command line."""
    for group in GROUPS:
        app.add_typer(group)
    app.command()(reroute)


@clusters.callback()
def cluster() -> None:
    """Clusters of the federation: drain and resume them."""


@clusters.command("list")
def list_clusters(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the clusters as the federation has them, and jobs that wait for one, with the reasons."""
    from muster.cli import clustering

    clustering.show(state_dir, output)


@clusters.command()
def drain(
    *,
    name: _Cluster,
    state_dir: StateDir,
    to: Annotated[
        list[str] | None,
        typer.Option(help="Takes its jobs; repeat for more, the first that can takes them.", callback=values.cluster),
    ] = None,
    reason: Reason = "",
    output: As = Output.TABLE,
) -> None:
    """Give a cluster no new jobs (operators and admins). Jobs that have not started move, keeping their age.

    What runs there finishes there: nothing is ended, and nobody has to submit again.
    """
    from muster.cli import clustering

    clustering.drain(state_dir, name, to=to or [], reason=reason, form=output)


@clusters.command()
def resume(*, name: _Cluster, state_dir: StateDir, reason: Reason = "", output: As = Output.TABLE) -> None:
    """Give a cluster jobs again (operators and admins)."""
    from muster.cli import clustering

    clustering.resume(state_dir, name, reason=reason, form=output)


@routes.callback()
def where_jobs_go(context: typer.Context, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the rules that stand, the first that matches counts."""
    if context.invoked_subcommand is None:
        from muster.cli import clustering

        clustering.show_routes(state_dir, output)


@routes.command("show")
def show_routes(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the rules that stand, as `muster routes` does; `-o json` as a file for `muster routes set`."""
    from muster.cli import clustering

    clustering.show_routes(state_dir, output)


@routes.command("set")
def set_routes(
    *,
    file: _File,
    state_dir: StateDir,
    based_on: Annotated[int, typer.Option(min=0, help="Refuse it if another version stands by now.")] = 0,
) -> None:
    """Have jobs go by these rules (operators and admins). Counts for jobs that have no cluster yet."""
    from muster.cli import clustering

    clustering.set_routes(state_dir, file, based_on=based_on)


@routes.command("check")
def check_routes(*, file: _File, state_dir: StateDir) -> None:
    """Read rules without setting them: whether every job finds a cluster, and what is wrong with which field.

    Where a stack runs, the clusters must be clusters of its federation.
    """
    from muster.cli import clustering

    clustering.check_routes(state_dir, file)


def reroute(
    *,
    job: Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB", callback=values.job_id)],
    state_dir: StateDir,
    to: Annotated[
        str, typer.Option(help="By default another one, as the rules say.", metavar="CLUSTER", callback=values.cluster)
    ] = "",
    reason: Reason = "",
    output: As = Output.TABLE,
) -> None:
    """Move a job that has not started to another cluster. It keeps its id and its age."""
    from muster.cli import clustering

    clustering.reroute(state_dir, job, to=to, reason=reason, form=output)
