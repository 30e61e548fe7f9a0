"""Commands that protect Kubernetes API servers: `muster guard`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, StateDir, spread

_HELP = "Protect Kubernetes API servers: expensive LIST requests, memory, flow control."
app = typer.Typer(name="guard", help=_HELP, no_args_is_help=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The connection to a cluster: from the command line, the settings of the stack, or $KUBECONFIG."""

    state_dir: StateDir
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            help="Connect to this cluster without a stack. Default: that of the settings, or $KUBECONFIG.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    context: Annotated[str, typer.Option("--context", help="Context of the kubeconfig. Default: the current one.")] = ""
    api_server: Annotated[
        list[str] | None,
        typer.Option(
            "--api-server",
            help="URL of an API server; repeat. Default: those that the cluster lists.",
            callback=values.url("http", "https"),
        ),
    ] = None


@app.callback()
def guard() -> None:
    """Protect Kubernetes API servers: expensive LIST requests, memory, flow control."""


@app.command()
@spread
def report(
    *,
    reach: Reach,
    seconds: Annotated[
        float, typer.Option(min=0, max=600, help="Without a stack: measuring time for rates, in seconds.")
    ] = 10.0,
    output: As = Output.TABLE,
    cluster: Cluster = "",
) -> None:
    """Report the state of the API servers and recommendations, from the guard service or directly from a cluster."""
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
            help="Limit RESOURCE=SEATS, such as secrets=2 or jobs.batch=4; repeat. Default: from the settings."
        ),
    ] = None,
    everybody: Annotated[bool, typer.Option("--everybody", help="Limit users too, not only service accounts.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the objects and validate them at the server; change nothing.")
    ] = False,
    output: As = Output.TABLE,
) -> None:
    """Limit the number of concurrent LISTs per resource by flow-control objects; further LISTs are queued.

    The objects are computed for the priority levels of this cluster. With the setting guard.apply, the guard updates
    them when other levels change. Exit code 3 if a limit is not possible.
    """
    from muster.cli import guarding

    guarding.apply(reach, output, kinds=kind, everybody=everybody, dry_run=dry_run)


@app.command()
@spread
def remove(*, reach: Reach) -> None:
    """Delete every flow-control object that `apply` or the guard created."""
    from muster.cli import guarding

    guarding.remove(reach)


@app.command()
def audit(
    *,
    into: Annotated[Path, typer.Argument(help="Output directory.", metavar="DIR", file_okay=False)],
    url: Annotated[
        str,
        typer.Option(
            help="URL of the guard, as API servers reach it (setting guard.audit_port).",
            callback=values.url("http", "https"),
        ),
    ],
    ca: Annotated[
        Path | None,
        typer.Option(
            help="For an https URL: CA of guard.audit_certificate, in PEM. Default: create one.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Write the audit configuration by which API servers report LISTs to the guard: policy, webhook and token.

    With an https URL, also write a certificate for its host.
    """
    from muster.cli import guard_audit

    guard_audit.write(into, url=url, ca=ca)
