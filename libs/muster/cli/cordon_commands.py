"""`muster cordon`, `drain`, `resume`: nodes that people close."""

from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir

_Nodes = Annotated[list[str], typer.Argument(help="Nodes, by name.", metavar="NODE...")]
_Reason = Annotated[str, typer.Option(help="Kept in the log, and shown by `muster nodes --reasons`.")]
_Cluster = Annotated[str, typer.Option(help="Whose nodes, where several clusters have some of that name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (cordon, drain, resume):
        app.command()(command)


def cordon(
    *, nodes: _Nodes, state_dir: StateDir, output: As = Output.TABLE, reason: _Reason = "", cluster: _Cluster = ""
) -> None:
    """Place nothing new on nodes (operators and admins). What runs there runs on."""
    from muster.cli import cordoning

    cordoning.close(state_dir, nodes, "cordon", reason=reason, cluster=cluster, form=output)


def drain(
    *, nodes: _Nodes, state_dir: StateDir, output: As = Output.TABLE, reason: _Reason = "", cluster: _Cluster = ""
) -> None:
    """Place nothing new on nodes, and move jobs away that allow it (operators and admins). Nobody is killed.

    Jobs that checkpoint and may be preempted are stopped after a checkpoint, once their slice is over, and go on
    elsewhere; the others finish where they are.
    """
    from muster.cli import cordoning

    cordoning.close(state_dir, nodes, "drain", reason=reason, cluster=cluster, form=output)


def resume(
    *, nodes: _Nodes, state_dir: StateDir, output: As = Output.TABLE, reason: _Reason = "", cluster: _Cluster = ""
) -> None:
    """Use nodes again that people closed (operators and admins). What services withhold them for stands."""
    from muster.cli import cordoning

    cordoning.close(state_dir, nodes, "resume", reason=reason, cluster=cluster, form=output)
