"""Commands that change the scheduling of nodes: `muster cordon`, `muster drain` and `muster resume`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir

if TYPE_CHECKING:
    from muster.client import Muster
    from muster.schemas.views import NodeView

Ask = Literal["cordon", "drain", "resume"]
_REPORTED = {"cordon": "cordoned", "drain": "drained", "resume": "resumed"}
_Nodes = Annotated[list[str], typer.Argument(help="Node names.", metavar="NODE...", callback=values.node)]
_Reason = Annotated[
    str, typer.Option(help="Reason, recorded in the log and shown by `muster nodes --reasons`.", callback=values.reason)
]
_Cluster = Annotated[
    str,
    typer.Option(help="Cluster of the nodes, if several clusters have nodes of that name.", callback=values.cluster),
]


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (cordon, drain, resume):
        app.command()(command)


def cordon(
    *, nodes: _Nodes, state_dir: StateDir, output: As = Output.TABLE, reason: _Reason = "", cluster: _Cluster = ""
) -> None:
    """Mark nodes unschedulable (operators and admins). Running jobs continue."""
    _ask_each(state_dir, nodes, "cordon", reason=reason, cluster=cluster, form=output)


def drain(
    *, nodes: _Nodes, state_dir: StateDir, output: As = Output.TABLE, reason: _Reason = "", cluster: _Cluster = ""
) -> None:
    """Mark nodes unschedulable and move preemptible jobs away (operators and admins). Other jobs run to their end.

    A preemptible job that writes checkpoints is stopped after a checkpoint, when its time slice is over, and continues
    on other nodes.
    """
    _ask_each(state_dir, nodes, "drain", reason=reason, cluster=cluster, form=output)


def resume(
    *, nodes: _Nodes, state_dir: StateDir, output: As = Output.TABLE, reason: _Reason = "", cluster: _Cluster = ""
) -> None:
    """Mark cordoned or drained nodes schedulable again (operators and admins). Drains by services remain."""
    _ask_each(state_dir, nodes, "resume", reason=reason, cluster=cluster, form=output)


def _ask_each(state_dir: Path, nodes: Sequence[str], ask: Ask, *, reason: str, cluster: str, form: Output) -> None:
    """Send the request for each node. Raises CliError at the first refusal."""
    from muster.cli.output import emitted, print_line
    from muster.cli.session import call

    async def ask_all(muster: "Muster") -> "list[NodeView]":
        method = {"cordon": muster.cordon, "drain": muster.drain, "resume": muster.resume}[ask]
        return [await method(node, reason=reason, cluster=cluster) for node in nodes]

    found = call(state_dir, ask_all)
    if emitted(found, form):
        return
    for node in found:
        print_line(f"{node.name} {_outcome(node, ask)}")


def _outcome(node: "NodeView", ask: Ask) -> str:
    """Return the result for a person: the number of jobs on the node, or why it is still not schedulable."""
    now = {reason.what for reason in node.reasons}
    is_so = not now & set(_REPORTED.values()) if ask == "resume" else _REPORTED[ask] in now
    if not is_so:
        return f"{ask} requested"
    if ask != "resume":
        jobs = "1 job" if len(node.jobs) == 1 else f"{len(node.jobs)} jobs"
        return f"{_REPORTED[ask]}, {jobs} there"
    against = [reason for reason in node.reasons if reason.what != "planned" and not reason.device]
    return f"resumed, but {against[0].what}: {against[0].reason or against[0].request_id}" if against else "resumed"
