"""`muster kubernetes`: what an administrator of a real cluster needs before and beside `kubectl apply`."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.output import print_lines, table
from muster.kube.permissions import PATHS, TABLE, Feature, services

if TYPE_CHECKING:
    from muster.kube.rbac import Scope

app = typer.Typer(name="kubernetes", help="A real cluster: the permissions that Muster needs.", no_args_is_help=True)


@app.callback()
def kubernetes() -> None:
    """A real cluster: the permissions that Muster needs."""


@app.command()
def rbac(
    *,
    namespace: Annotated[str, typer.Option(help="Where Muster's own pods run.", callback=values.name)] = "muster",
    writes_in: Annotated[
        list[str] | None,
        typer.Option(help="A namespace whose jobs Muster runs; repeat. By default all of them.", callback=values.name),
    ] = None,
    without: Annotated[list[Feature] | None, typer.Option(help="Leave out what this feature needs; repeat.")] = None,
    fabrics: Annotated[bool, typer.Option(help="With what a cluster needs in which devices or nodes move.")] = True,
    service: Annotated[
        list[str] | None, typer.Option(help="A service whose roles are printed; repeat. By default agent and guard.")
    ] = None,
) -> None:
    """Print the roles and bindings of the services that use the API server, from the table of what they use."""
    from muster.kube.rbac import OF_FABRICS, Scope

    unknown = next((name for name in service or () if name not in services()), None)
    if unknown is not None:
        raise usage(f"--service {unknown}: no permission is of such a service; choose {', '.join(services())}")
    left_out = tuple(without or ())
    if Feature.CORE in left_out:
        raise usage("--without core: without these permissions the agent stops; leave out another feature")
    scope = Scope(
        namespace=namespace,
        writes_in=tuple(dict.fromkeys(writes_in or ())),
        without=left_out if fabrics else (*left_out, *OF_FABRICS),
        services=tuple(dict.fromkeys(service or ())) or Scope().services,
    )
    print_lines(rbac_yaml(scope))


@app.command()
def permissions() -> None:
    """Print that table: who needs which verb, what for, and what is lost without."""
    rows = [(row.service, row.title, " ".join(row.verbs), str(row.feature), row.why) for row in TABLE]
    rows += [(row.service, " ".join(row.paths), "get", str(row.feature), row.why) for row in PATHS]
    table(("SERVICE", "RESOURCE", "VERBS", "FEATURE", "WHY"), rows)


@app.command()
def crd() -> None:
    """Print the definition of MusterJob, by which `kubectl apply` submits jobs."""
    from muster.kube.musterjob import manifest

    print_lines(manifest())


def rbac_yaml(scope: "Scope") -> str:
    """Return the roles and bindings as a stream of YAML documents."""
    import yaml

    from muster.kube.rbac import manifests

    names = " and ".join(scope.services)
    head = f"# What {names} may do at the API server, as `muster kubernetes rbac` prints it (k8s/README.md).\n"
    return head + yaml.safe_dump_all(manifests(scope), sort_keys=False, default_flow_style=None, width=110)
