"""`muster guard`: what endangers the API servers, and what protects them."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Cluster, Output, StateDir

_HELP = "API servers: who lists too much, memory, flow control."
app = typer.Typer(name="guard", help=_HELP, no_args_is_help=True)

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="Work straight at this cluster, without a stack. By default that of the settings, or of $KUBECONFIG.",
        exists=True,
        dir_okay=False,
    ),
]
Context = Annotated[str, typer.Option("--context", help="Of the kubeconfig; by default its current one.")]
Servers = Annotated[
    list[str] | None,
    typer.Option("--api-server", help="URL of one API server; repeat. By default those that the cluster lists."),
]


@app.callback()
def guard() -> None:
    """API servers: who lists too much, memory, flow control."""


@app.command()
def report(
    *,
    state_dir: StateDir,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    api_server: Servers = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=600, help="Straight at a cluster: how long it is watched for rates.")
    ] = 10.0,
    output: As = Output.TABLE,
    cluster: Cluster = "",
) -> None:
    """Show how the API servers are and what to do: from the stack's guard, or straight from a cluster."""
    from muster.cli import guarding

    if kubeconfig is None and not context and not api_server:
        guarding.report_of_stack(state_dir, output, cluster=cluster)
    else:
        reach = guarding.Reach(state_dir, kubeconfig, context, tuple(api_server or ()))
        guarding.report_of_cluster(reach, output, seconds=seconds)


@app.command()
def apply(
    *,
    state_dir: StateDir,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    api_server: Servers = None,
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

    reach = guarding.Reach(state_dir, kubeconfig, context, tuple(api_server or ()))
    guarding.apply(reach, output, kinds=kind, everybody=everybody, dry_run=dry_run)


@app.command()
def remove(
    *, state_dir: StateDir, kubeconfig: Kubeconfig = None, context: Context = "", api_server: Servers = None
) -> None:
    """Take away every flow-control object that `apply` or the guard has made."""
    from muster.cli import guarding

    guarding.remove(guarding.Reach(state_dir, kubeconfig, context, tuple(api_server or ())))


@app.command()
def audit(
    *,
    into: Annotated[Path, typer.Argument(help="Where the files are written.", metavar="DIR", file_okay=False)],
    url: Annotated[
        str, typer.Option(help="Where the guard listens, as API servers reach it: setting guard.audit_port.")
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
