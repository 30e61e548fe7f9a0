"""An ordinary client of the cluster: the user of a pod, subject to flow control and authorization like any other.

The control plane's admin is in `system:masters`: the API server exempts it from both, unlike clients in a cluster.
"""

from collections.abc import Iterator

from muster.kube.permissions import PATHS, TABLE
from muster_tools.local_kubernetes.nodes import Manifest

USER = "muster"
GROUPS = ("system:serviceaccounts",)
"""Groups of a pod's user: flow control treats it as every other service account."""
USERS = ((USER, GROUPS),)
"""Value for `PlaneOptions.users`."""
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def rights() -> Iterator[tuple[str, Manifest]]:
    """Yield one role with every permission that Muster names, and its binding to the user."""
    rules: list[Manifest] = [
        {"apiGroups": [row.group], "resources": [row.resource], "verbs": list(row.verbs)} for row in TABLE
    ]
    rules += [{"nonResourceURLs": list(row.paths), "verbs": ["get"]} for row in PATHS]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "muster-bench"}}
    yield ROLES, {**head, "kind": "ClusterRole", "rules": rules}
    yield (
        BINDINGS,
        {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-bench"},
            "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}],
        },
    )
