"""Commands for rolling upgrades of nodes: `muster upgrade`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, Reason, StateDir, listing, spread

app = typer.Typer(name="upgrade", help="Rolling upgrades of nodes, without killing jobs.", no_args_is_help=True)

_WHAT, _LIMITS, _WHEN = "Upgrade", "Limits", "Time"
_Campaign = Annotated[str, typer.Argument(help="Campaign name.", metavar="NAME", callback=values.name)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Options of a campaign."""

    component: Annotated[
        str,
        typer.Option(
            help="Component and version: driver=580.105, device-plugin=0.17.1, kubelet=1.34.2, os=22.04.5, "
            "reboot, or command.",
            metavar="NAME[=VERSION]",
            rich_help_panel=_WHAT,
        ),
    ]
    run: Annotated[
        str,
        typer.Option(
            "--run",
            help="Command to run on each node, with --component command.",
            rich_help_panel=_WHAT,
            parser=values.lines,
            metavar="TEXT",
        ),
    ] = ""
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="Select nodes by node=a,b, group=NAME, model=H100 or a node label; repeated selectors must all match. "
            "Default: all nodes.",
            metavar="KEY=VALUE",
            rich_help_panel=_WHAT,
        ),
    ] = None
    suite: Annotated[
        str,
        typer.Option(
            help="Suite of checks that each upgraded node must pass.", rich_help_panel=_WHAT, callback=values.name
        ),
    ] = "validate"
    roll_back: Annotated[
        bool,
        typer.Option("--roll-back", help="Roll failed nodes back to their previous version.", rich_help_panel=_WHAT),
    ] = False
    max_unavailable: Annotated[
        str,
        typer.Option(
            help="Maximum unavailable nodes, for any reason, as a number or percentage: 10 or 5%.",
            rich_help_panel=_LIMITS,
        ),
    ] = "5%"
    parallel: Annotated[
        int, typer.Option(min=0, help="Maximum nodes upgraded at the same time; 0: no limit.", rich_help_panel=_LIMITS)
    ] = 0
    per_rack: Annotated[
        str,
        typer.Option(help="Maximum unavailable nodes per rack: 1 or 10%. Default: no limit.", rich_help_panel=_LIMITS),
    ] = ""
    per_group: Annotated[
        str,
        typer.Option(
            help="Maximum unavailable nodes per node group: 1 or 10%. Default: no limit.", rich_help_panel=_LIMITS
        ),
    ] = ""
    failures: Annotated[
        int, typer.Option(min=1, help="Stop the campaign when N nodes failed.", metavar="N", rich_help_panel=_LIMITS)
    ] = 1
    window: Annotated[
        list[str] | None,
        typer.Option(
            help="Maintenance window in UTC, such as 'Mon-Fri 22:00-06:00'; repeat. Default: any time.",
            metavar="DAYS TIME",
            rich_help_panel=_WHEN,
        ),
    ] = None
    starts: Annotated[
        str,
        typer.Option(help="Start time, such as 2026-11-22T10:00 (local time). Default: now.", rich_help_panel=_WHEN),
    ] = ""
    takes: Annotated[str, typer.Option(help="Expected duration of the upgrade of one node.", rich_help_panel=_WHEN)] = (
        "20m"
    )
    limit: Annotated[str, typer.Option(help="Time limit for the upgrade of one node.", rich_help_panel=_WHEN)] = "30m"
    move: Annotated[
        bool,
        typer.Option(
            "--move",
            help="Move preemptible jobs away after a checkpoint, when their time slice is over.",
            rich_help_panel=_WHEN,
        ),
    ] = False
    name: Annotated[
        str, typer.Option(help="Campaign name. Default: made from the component.", callback=values.name)
    ] = ""


@app.callback()
def upgrade() -> None:
    """Rolling upgrades of nodes, without killing jobs."""


@app.command()
@spread
def start(*, state_dir: StateDir, wanted: Wanted, reason: Reason = "", cluster: Cluster = "") -> None:
    """Start an upgrade campaign (operators and admins). `muster upgrade plan` with the same options previews it.

    The turn of each node is planned by the ends of the jobs on it. Until then, only jobs that end earlier start there.
    After its last job, the node is upgraded, checked and made schedulable again.
    """
    from muster.cli import upgrading

    upgrading.start(state_dir, wanted, reason=reason, cluster=cluster)


@app.command()
@spread
def plan(*, state_dir: StateDir, output: As = Output.TABLE, wanted: Wanted, cluster: Cluster = "") -> None:
    """Simulate a campaign and compare it with draining nodes manually (operators and admins).

    `-o wide` also lists the turn of each node.
    """
    from muster.cli import upgrading

    upgrading.plan(state_dir, wanted, cluster=cluster, form=output)


@app.command()
@listing
def status(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    name: Annotated[
        str, typer.Argument(help="Show one campaign with its nodes.", metavar="[NAME]", callback=values.name)
    ] = "",
    cluster: Cluster = "",
) -> None:
    """List campaigns with progress, the state of nodes, and the expected end."""
    from muster.cli import upgrading

    upgrading.status(state_dir, name, cluster=cluster, form=output)


@app.command()
def pause(*, name: _Campaign, state_dir: StateDir, reason: Reason = "", cluster: Cluster = "") -> None:
    """Pause a campaign: start no further node (operators and admins). Upgrades in progress finish."""
    from muster.cli import upgrading

    upgrading.change(state_dir, name, "pause", reason=reason, cluster=cluster)


@app.command()
def resume(*, name: _Campaign, state_dir: StateDir, reason: Reason = "", cluster: Cluster = "") -> None:
    """Resume a paused or stopped campaign (operators and admins). Failed nodes are tried again."""
    from muster.cli import upgrading

    upgrading.change(state_dir, name, "resume", reason=reason, cluster=cluster)


@app.command()
def abort(*, name: _Campaign, state_dir: StateDir, reason: Reason = "", cluster: Cluster = "") -> None:
    """Abort a campaign (operators and admins). Upgrades in progress finish."""
    from muster.cli import upgrading

    upgrading.change(state_dir, name, "abort", reason=reason, cluster=cluster)
