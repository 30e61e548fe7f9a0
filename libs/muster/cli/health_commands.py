"""`muster health`: sick nodes and GPUs, rules, and what people tell the health service."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, Reason, StateDir

_HELP = "Sick nodes and GPUs: what is seen, what is done, the brake, the rules."
app = typer.Typer(name="health", help=_HELP, invoke_without_command=True)
rules_app = typer.Typer(name="rules", help="What codes mean, by GPU model.", no_args_is_help=True)
brake_app = typer.Typer(name="brake", help="What stops health where too much looks broken.", no_args_is_help=True)
app.add_typer(rules_app)
app.add_typer(brake_app)

_Node = Annotated[str, typer.Argument(help="Name of the node.", callback=values.node)]


@app.callback()
def health(context: typer.Context, *, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """Show nodes and GPUs that are not healthy, with reasons, and the brake."""
    if context.invoked_subcommand is None:
        from muster.cli import health_reports

        health_reports.report(state_dir, output, cluster=cluster)


@app.command()
def show(*, node: _Node, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """Show one node: its faults, and what was seen of it lately."""
    from muster.cli import health_reports

    health_reports.report_node(state_dir, node, output, cluster=cluster)


@app.command()
def verify(
    *,
    node: _Node,
    state_dir: StateDir,
    output: As = Output.TABLE,
    trust: Annotated[bool, typer.Option("--trust", help="Your word stands for the checks.")] = False,
    reason: Reason = "",
    cluster: Cluster = "",
) -> None:
    """Say that a node was looked after (operators and admins): it is checked, and given back if all checks pass."""
    from muster.cli import health_reports

    health_reports.verify(state_dir, node, output, trust=trust, reason=reason, cluster=cluster)


@brake_app.command("reset")
def reset(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    skip: Annotated[bool, typer.Option("--skip", help="Drop what waited for the brake.")] = False,
    reason: Reason = "",
    cluster: Cluster = "",
) -> None:
    """Let health act again after its brake tripped (operators and admins)."""
    from muster.cli import health_reports

    health_reports.reset_brake(state_dir, output, skip=skip, reason=reason, cluster=cluster)


@rules_app.command("list")
def list_rules(
    *,
    model: Annotated[str, typer.Option(help="A GPU model, as exporters print it.")] = "",
    path: Annotated[Path | None, typer.Option("--rules", help="A file or folder over the built-in rules.")] = None,
    output: As = Output.TABLE,
) -> None:
    """Show what each code means for a GPU model. Needs no stack."""
    from muster.cli import health_reports

    health_reports.show_rules(model, path, output)


@rules_app.command("check")
def check_rules(
    *, path: Annotated[Path, typer.Argument(help="A file, or a folder of *.yaml.", metavar="PATH")]
) -> None:
    """Say whether rules can be used, and where they are wrong. Needs no stack."""
    from muster.cli import health_reports

    health_reports.check_rules(path)
