"""Commands for the health of nodes and GPUs: `muster health`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, Reason, StateDir, listing

_HELP = "Faulty nodes and GPUs: conditions, repairs, safety brake, fault rules."
app = typer.Typer(name="health", help=_HELP, invoke_without_command=True)
rules_app = typer.Typer(
    name="rules", help="Fault rules: the meaning of fault codes, by GPU model.", no_args_is_help=True
)
brake_app = typer.Typer(
    name="brake", help="Safety brake: stops automatic drains when too much hardware looks faulty.", no_args_is_help=True
)
app.add_typer(rules_app)
app.add_typer(brake_app)

_Node = Annotated[str, typer.Argument(help="Node name.", callback=values.node)]


@app.callback()
def health(context: typer.Context, *, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """List unhealthy nodes and GPUs with reasons, and the state of the safety brake."""
    if context.invoked_subcommand is None:
        from muster.cli import health_reports

        health_reports.report(state_dir, output, cluster=cluster)


@app.command()
def show(*, node: _Node, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """Show one node with its faults and recent observations."""
    from muster.cli import health_reports

    health_reports.report_node(state_dir, node, output, cluster=cluster)


@app.command()
def verify(
    *,
    node: _Node,
    state_dir: StateDir,
    output: As = Output.TABLE,
    trust: Annotated[bool, typer.Option("--trust", help="Skip verification and mark healthy.")] = False,
    reason: Reason = "",
    cluster: Cluster = "",
) -> None:
    """Verify a repaired node (operators and admins): run its checks, and make it schedulable if all pass."""
    from muster.cli import health_reports

    health_reports.verify(state_dir, node, output, trust=trust, reason=reason, cluster=cluster)


@brake_app.command("reset")
def reset(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    skip: Annotated[bool, typer.Option("--skip", help="Discard the actions that the brake held back.")] = False,
    reason: Reason = "",
    cluster: Cluster = "",
) -> None:
    """Reset a tripped safety brake: allow automatic drains again (operators and admins)."""
    from muster.cli import health_reports

    health_reports.reset_brake(state_dir, output, skip=skip, reason=reason, cluster=cluster)


@rules_app.command("list")
@listing
def list_rules(
    *,
    model: Annotated[str, typer.Option(help="GPU model, as exporters report it. Default: all models.")] = "",
    path: Annotated[
        Path | None, typer.Option("--rules", help="File or directory with rules that override the built-in ones.")
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """List the rule of each fault code for a GPU model. Needs no stack."""
    from muster.cli import health_reports

    health_reports.show_rules(model, path, output)


@rules_app.command("check")
def check_rules(
    *, path: Annotated[Path, typer.Argument(help="A file, or a directory of *.yaml files.", metavar="PATH")]
) -> None:
    """Validate fault rules and report each error. Needs no stack."""
    from muster.cli import health_reports

    health_reports.check_rules(path)
