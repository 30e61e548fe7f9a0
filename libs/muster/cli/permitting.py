"""The work of `muster kubernetes`."""

from collections.abc import Sequence

import yaml

from muster.cli import output
from muster.cli.errors import usage
from muster.cli.output import print_lines
from muster.kube.permissions import PATHS, TABLE, Feature
from muster.kube.rbac import OF_FABRICS, Scope, manifests

HEAD = """# What the agent and the guard may do, from the table in libs/muster/kube/permissions.py:
#   muster kubernetes rbac --writes-in muster-jobs --no-fabrics > k8s/base/rbac.yaml
"""


def rbac_yaml(scope: Scope) -> str:
    """The roles and bindings as a stream of YAML documents."""
    return HEAD + yaml.safe_dump_all(manifests(scope), sort_keys=False, default_flow_style=None, width=110)


def rbac(
    *, namespace: str, writes_in: Sequence[str], without: Sequence[Feature], fabrics: bool, token_review: bool
) -> None:
    """Print the manifests. Raises CliError."""
    if Feature.CORE in without:
        raise usage("--without core: without these permissions the agent stops; leave out another feature")
    left_out = (*without, *(() if fabrics else OF_FABRICS))
    scope = Scope(
        namespace=namespace, writes_in=tuple(dict.fromkeys(writes_in)), without=left_out, token_review=token_review
    )
    print_lines(rbac_yaml(scope))


def permissions() -> None:
    """Print the table."""
    rows = [(row.service, row.title, " ".join(row.verbs), str(row.feature), row.why) for row in TABLE]
    rows += [(row.service, " ".join(row.paths), "get", str(row.feature), row.why) for row in PATHS]
    output.table(("SERVICE", "RESOURCE", "VERBS", "FEATURE", "WHY"), rows)
