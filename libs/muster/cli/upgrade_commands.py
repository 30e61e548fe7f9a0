"""`muster upgrade`: nodes are brought to another version while jobs run on the others."""

from dataclasses import dataclass
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, Reason, StateDir, spread

app = typer.Typer(
    name="upgrade", help="Upgrade nodes in turns that jobs leave room for; nobody is killed.", no_args_is_help=True
)

_WHAT, _LIMITS, _WHEN = "What is upgraded", "How many at a time", "When"
_Campaign = Annotated[str, typer.Argument(help="Name of the campaign.", metavar="NAME", callback=values.name)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The options of a campaign."""

    component: Annotated[
        str,
        typer.Option(
            help="driver=580.105, device-plugin=0.17.1, kubelet=1.34.2, os=22.04.5, reboot, or command.",
            metavar="NAME[=VERSION]",
            rich_help_panel=_WHAT,
        ),
    ]
    run: Annotated[
        str, typer.Option("--run", help="Of component command: what runs on each node.", rich_help_panel=_WHAT)
    ] = ""
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="node=a,b  group=NAME  model=H100, or a label of nodes; repeat to narrow down. By default all nodes.",
            metavar="KEY=VALUE",
            rich_help_panel=_WHAT,
        ),
    ] = None
    suite: Annotated[
        str, typer.Option(help="Checks of each node afterwards.", rich_help_panel=_WHAT, callback=values.name)
    ] = "validate"
    roll_back: Annotated[
        bool, typer.Option("--roll-back", help="Bring failed nodes back to their version.", rich_help_panel=_WHAT)
    ] = False
    max_unavailable: Annotated[
        str, typer.Option(help="Nodes out of use at one time, whoever took them: 10 or 5%.", rich_help_panel=_LIMITS)
    ] = "5%"
    parallel: Annotated[int, typer.Option(min=0, help="Upgraded at one time.", rich_help_panel=_LIMITS)] = 0
    per_rack: Annotated[str, typer.Option(help="Out of use in one rack.", rich_help_panel=_LIMITS)] = ""
    per_group: Annotated[str, typer.Option(help="Out of use in one node group.", rich_help_panel=_LIMITS)] = ""
    failures: Annotated[
        int, typer.Option(min=1, help="Stop once so many nodes failed.", metavar="N", rich_help_panel=_LIMITS)
    ] = 1
    window: Annotated[
        list[str] | None,
        typer.Option(
            help="'Mon-Fri 22:00-06:00', UTC; nodes are taken within one of them.",
            metavar="DAYS TIME",
            rich_help_panel=_WHEN,
        ),
    ] = None
    starts: Annotated[str, typer.Option(help="2026-11-22T10:00, local time.", rich_help_panel=_WHEN)] = ""
    takes: Annotated[str, typer.Option(help="What one node takes, for the plan.", rich_help_panel=_WHEN)] = "20m"
    limit: Annotated[str, typer.Option(help="Then the upgrade of a node failed.", rich_help_panel=_WHEN)] = "30m"
    move: Annotated[
        bool,
        typer.Option(
            "--move",
            help="Stop jobs that checkpoint and may be preempted, after a checkpoint, once their slice is over.",
            rich_help_panel=_WHEN,
        ),
    ] = False
    name: Annotated[str, typer.Option(help="By default made of the component.", callback=values.name)] = ""


@app.callback()
def upgrade() -> None:
    """Upgrade nodes in turns that jobs leave room for; nobody is killed."""


@app.command()
@spread
def start(*, state_dir: StateDir, wanted: Wanted, reason: Reason = "", cluster: Cluster = "") -> None:
    """Start a campaign (operators and admins). `muster upgrade plan` with the same options says what it would come to.

    Each node: its turn is planned over the ends of the jobs there; nothing starts that would end later; once the last
    job ended it is upgraded, checked, and used again.
    """
    from muster.cli import upgrading

    upgrading.start(state_dir, wanted, reason=reason, cluster=cluster)


@app.command()
@spread
def plan(*, state_dir: StateDir, output: As = Output.TABLE, wanted: Wanted, cluster: Cluster = "") -> None:
    """Say what a campaign would come to (operators and admins), simulated, beside draining nodes by hand.

    -o wide: the turn of each node, too. JSON: the preview.
    """
    from muster.cli import upgrading

    upgrading.plan(state_dir, wanted, cluster=cluster, form=output)


@app.command()
def status(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    name: Annotated[
        str, typer.Argument(help="One campaign, with its nodes.", metavar="[NAME]", callback=values.name)
    ] = "",
    cluster: Cluster = "",
) -> None:
    """Show campaigns: how they go, where their nodes stand, when they end."""
    from muster.cli import upgrading

    upgrading.status(state_dir, name, cluster=cluster, form=output)


@app.command()
def pause(*, name: _Campaign, state_dir: StateDir, reason: Reason = "", cluster: Cluster = "") -> None:
    """Take no further node (operators and admins). What is being upgraded goes on to its end."""
    from muster.cli import upgrading

    upgrading.change(state_dir, name, "pause", reason=reason, cluster=cluster)


@app.command()
def resume(*, name: _Campaign, state_dir: StateDir, reason: Reason = "", cluster: Cluster = "") -> None:
    """Go on after a pause or a stop (operators and admins). Nodes that failed are tried again."""
    from muster.cli import upgrading

    upgrading.change(state_dir, name, "resume", reason=reason, cluster=cluster)


@app.command()
def abort(*, name: _Campaign, state_dir: StateDir, reason: Reason = "", cluster: Cluster = "") -> None:
    """End a campaign before all nodes had their turn (operators and admins). What is under way ends."""
    from muster.cli import upgrading

    upgrading.change(state_dir, name, "abort", reason=reason, cluster=cluster)
