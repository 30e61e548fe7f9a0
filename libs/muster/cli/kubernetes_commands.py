"""`muster kubernetes`: what an administrator of a real cluster needs before and beside `kubectl apply`."""

from typing import Annotated

import typer

from muster.cli.output import print_lines
from muster.kube.permissions import Feature

app = typer.Typer(name="kubernetes", help="A real cluster: the permissions that Muster needs.", no_args_is_help=True)


@app.callback()
def kubernetes() -> None:
    """A real cluster: the permissions that Muster needs."""


@app.command()
def rbac(
    *,
    namespace: Annotated[str, typer.Option(help="Where Muster's own pods run.")] = "muster",
    writes_in: Annotated[
        list[str] | None, typer.Option(help="A namespace whose jobs Muster runs; repeat. By default all of them.")
    ] = None,
    without: Annotated[list[Feature] | None, typer.Option(help="Leave out what this feature needs; repeat.")] = None,
    fabrics: Annotated[bool, typer.Option(help="With what a cluster needs in which devices or nodes move.")] = True,
    service: Annotated[
        list[str] | None,
        typer.Option(help="A service whose roles are printed; repeat. By default agent and guard."),
    ] = None,
) -> None:
    """Print the roles and bindings of the services that use the API server, from the table of what they use."""
    from muster.cli import permitting

    permitting.rbac(
        namespace=namespace,
        writes_in=writes_in or [],
        without=without or [],
        fabrics=fabrics,
        of_services=service or [],
    )


@app.command()
def permissions() -> None:
    """Print that table: who needs which verb, what for, and what is lost without."""
    from muster.cli import permitting

    permitting.permissions()


@app.command()
def crd() -> None:
    """Print the definition of MusterJob, by which `kubectl apply` submits jobs."""
    from muster.kube.musterjob import manifest

    print_lines(manifest())
