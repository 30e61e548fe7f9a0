"""The work of `muster kubernetes`."""

from collections.abc import Sequence

import yaml

from muster.cli import output
from muster.cli.errors import usage
from muster.cli.output import print_lines
from muster.kube.permissions import PATHS, TABLE, Feature, services
from muster.kube.rbac import OF_FABRICS, Scope, manifests


def rbac_yaml(scope: Scope) -> str:
    """The roles and bindings as a stream of YAML documents."""
    names = " and ".join(scope.services)
    head = f"# What {names} may do at the API server, as `muster kubernetes rbac` prints it (k8s/README.md).\n"
    return head + yaml.safe_dump_all(manifests(scope), sort_keys=False, default_flow_style=None, width=110)


def rbac(
    *,
    namespace: str,
    writes_in: Sequence[str],
    without: Sequence[Feature],
    fabrics: bool,
    of_services: Sequence[str],
) -> None:
    """Print the manifests. of_services: none: of those that the base gives roles. Raises CliError."""
    unknown = next((name for name in of_services if name not in services()), None)
    if unknown is not None:
        raise usage(f"--service {unknown}: no permission is of such a service; choose {', '.join(services())}")
    if Feature.CORE in without:
        raise usage("--without core: without these permissions the agent stops; leave out another feature")
    left_out = (*without, *(() if fabrics else OF_FABRICS))
    scope = Scope(
        namespace=namespace,
        writes_in=tuple(dict.fromkeys(writes_in)),
        without=left_out,
        services=tuple(dict.fromkeys(of_services)) or Scope().services,
    )
    print_lines(rbac_yaml(scope))


def permissions() -> None:
    """Print the table."""
    rows = [(row.service, row.title, " ".join(row.verbs), str(row.feature), row.why) for row in TABLE]
    rows += [(row.service, " ".join(row.paths), "get", str(row.feature), row.why) for row in PATHS]
    output.table(("SERVICE", "RESOURCE", "VERBS", "FEATURE", "WHY"), rows)
