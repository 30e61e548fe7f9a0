"""`muster guard`: what endangers the API servers, and what protects them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, StateDir, spread

_HELP = "API servers: who lists too much, memory, flow control."
app = typer.Typer(name="guard", help=_HELP, no_args_is_help=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """How a cluster is reached: what was given on the command line, else the stack's settings, else $KUBECONFIG."""

    state_dir: StateDir
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            help="Work straight at this cluster, without a stack. By default that of the settings, or of $KUBECONFIG.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    context: Annotated[str, typer.Option("--context", help="Of the kubeconfig; by default its current one.")] = ""
    api_server: Annotated[
        list[str] | None,
        typer.Option(
            "--api-server",
            help="URL of one API server; repeat. By default those that the cluster lists.",
            callback=values.url("http", "https"),
        ),
    ] = None


@app.callback()
def guard() -> None:
    """API servers: who lists too much, memory, flow control."""


@app.command()
@spread
def report(
    *,
    reach: Reach,
    seconds: Annotated[
        float, typer.Option(min=0, max=600, help="Straight at a cluster: how long it is watched for rates.")
    ] = 10.0,
    output: As = Output.TABLE,
    cluster: Cluster = "",
) -> None:
    """Show how the API servers are and what to do: from the stack's guard, or straight from a cluster."""
    from muster.cli import guarding

    if reach == Reach(state_dir=reach.state_dir):
        guarding.report_of_stack(reach.state_dir, output, cluster=cluster)
    else:
        guarding.report_of_cluster(reach, output, seconds=seconds)


@app.command()
@spread
def apply(
    *,
    reach: Reach,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="RESOURCE=SEATS, for example secrets=2 or jobs.batch=4; repeat. By default the settings' own."
        ),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Hold back people too, not only service accounts.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the objects, have the server check them, and change nothing.")
    ] = False,
    output: As = Output.TABLE,
) -> None:
    """Let exactly so many LISTs of each kind through at a time, and queue the rest: computed for this cluster's levels.

    Muster's guard keeps it right when other levels change, if the setting guard.apply says so. Exit 3 if it cannot be.
    """
    from muster.cli import guarding

    guarding.apply(reach, output, kinds=kind, everybody=everybody, dry_run=dry_run)


@app.command()
@spread
def remove(*, reach: Reach) -> None:
    """Take away every flow-control object that `apply` or the guard has made."""
    from muster.cli import guarding

    guarding.remove(reach)


@app.command()
def audit(
    *,
    into: Annotated[Path, typer.Argument(help="Where the files are written.", metavar="DIR", file_okay=False)],
    url: Annotated[
        str,
        typer.Option(
            help="Where the guard listens, as API servers reach it: setting guard.audit_port.",
            callback=values.url("http", "https"),
        ),
    ],
    ca: Annotated[
        Path | None,
        typer.Option(
            help="Of an https URL: the authority that signed guard.audit_certificate, in PEM. Without, one is made.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Write what API servers need to tell the guard who lists: a policy of LISTs alone, a webhook, a token.

    With an https URL a certificate for its host, too.
    """
    from muster.cli import guard_audit

    guard_audit.write(into, url=url, ca=ca)
