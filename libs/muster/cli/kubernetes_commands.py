"""Commands for administrators of Kubernetes clusters: `muster kubernetes`."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.output import print_lines, table
from muster.kube.permissions import PATHS, TABLE, Feature, services

if TYPE_CHECKING:
    from muster.kube.rbac import Scope

app = typer.Typer(
    name="kubernetes",
    help="Print the permissions and custom resources that Muster needs in a Kubernetes cluster.",
    no_args_is_help=True,
)


@app.callback()
def kubernetes() -> None:
    """Print the permissions and custom resources that Muster needs in a Kubernetes cluster."""


@app.command()
def rbac(
    *,
    namespace: Annotated[str, typer.Option(help="Namespace of the pods of Muster.", callback=values.name)] = "muster",
    writes_in: Annotated[
        list[str] | None,
        typer.Option(help="Namespace whose jobs Muster runs; repeat. Default: all.", callback=values.name),
    ] = None,
    without: Annotated[list[Feature] | None, typer.Option(help="Omit the permissions of this feature; repeat.")] = None,
    fabrics: Annotated[
        bool, typer.Option(help="Include the permissions for attaching devices and adding nodes.")
    ] = True,
    service: Annotated[
        list[str] | None, typer.Option(help="Print the roles of this service; repeat. Default: agent and guard.")
    ] = None,
) -> None:
    """Print the RBAC roles and bindings of the services that use the API server."""
    from muster.kube.rbac import OF_FABRICS, Scope

    unknown = next((name for name in service or () if name not in services()), None)
    if unknown is not None:
        raise usage(f"--service {unknown}: this service uses no API server; use one of {', '.join(services())}")
    left_out = tuple(without or ())
    if Feature.CORE in left_out:
        raise usage("--without core: the agent cannot run without these permissions; omit another feature")
    scope = Scope(
        namespace=namespace,
        writes_in=tuple(dict.fromkeys(writes_in or ())),
        without=left_out if fabrics else (*left_out, *OF_FABRICS),
        services=tuple(dict.fromkeys(service or ())) or Scope().services,
    )
    print_lines(rbac_yaml(scope))


@app.command()
def permissions() -> None:
    """List each permission: the service, the verbs, the feature, and the reason."""
    rows = [(row.service, row.title, " ".join(row.verbs), str(row.feature), row.why) for row in TABLE]
    rows += [(row.service, " ".join(row.paths), "get", str(row.feature), row.why) for row in PATHS]
    table(("SERVICE", "RESOURCE", "VERBS", "FEATURE", "WHY"), rows)


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition of MusterJob, to submit jobs by `kubectl apply`."""
    from muster.kube.musterjob import manifest

    print_lines(manifest())


def rbac_yaml(scope: "Scope") -> str:
    """Return the roles and bindings as a stream of YAML documents."""
    import yaml

    from muster.kube.rbac import manifests

    names = " and ".join(scope.services)
    head = f"# Permissions of {names} at the API server, printed by `muster kubernetes rbac` (k8s/README.md).\n"
    return head + yaml.safe_dump_all(manifests(scope), sort_keys=False, default_flow_style=None, width=110)
