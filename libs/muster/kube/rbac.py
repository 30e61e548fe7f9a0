"""RBAC objects from the table of permissions (`permissions`): as narrow as the verbs that are used. Pure.

Reading is asked for everywhere, since other people's pods and the nodes count too; writing can be kept to the
namespaces whose jobs Muster runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from muster.kube.objects import JsonObject
from muster.kube.permissions import AGENT, GUARD, Feature, PathPermission, Permission, paths_of, permissions_of
from muster.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource

READING = frozenset({"get", "list", "watch"})
OWN_NAMESPACE = "muster"
"""Where Muster's own pods run, unless told otherwise."""
CLUSTER_SCOPED = frozenset(
    {
        "nodes",
        "namespaces",
        "resourceslices",
        "priorityclasses",
        "flowschemas",
        "prioritylevelconfigurations",
        "composabilityrequests",
        "composableresources",
        "tokenreviews",
    }
)
"""Resources of the table that lie in no namespace, so that writing them cannot be kept to one."""

OF_FABRICS = (
    Feature.HOT_PLUG,
    Feature.COMPOSABILITY,
    Feature.OPERATOR,
    Feature.MACHINES,
    Feature.OPENSHIFT_MACHINES,
    Feature.AUTOSCALER,
    Feature.POOL_SLICES,
    Feature.NODE_WORK,
)
"""For clusters in which devices or nodes move, or are worked on. What they write lies where machines, drivers and
nodes' own Jobs are, not with jobs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role. names: only objects of these names."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def body(self) -> JsonObject:
        """As RBAC writes it."""
        named: JsonObject = {"resourceNames": list(self.names)} if self.names else {}
        return {"apiGroups": [self.group], "resources": [self.resource], **named, "verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class Scope:
    """For whom and where. namespace: of the service accounts. writes_in: namespaces of jobs; none: all of them.

    without: features that are not wanted.
    """

    namespace: str = OWN_NAMESPACE
    writes_in: tuple[str, ...] = ()
    without: tuple[Feature, ...] = ()
    services: tuple[str, ...] = (AGENT, GUARD)
    """Services that get roles. The gateway is not among them unless it reviews tokens."""


def asked_in(row: Permission, verb: str, writes_in: Sequence[str]) -> tuple[str, ...]:
    """Where a verb must be had; "" is everywhere. writes_in: as in `Scope`."""
    return tuple(namespace for namespace, verbs in _spread(row, writes_in) if verb in verbs)


def account_of(service: str) -> str:
    """Name of a service's account, and of its roles."""
    return f"muster-{service}"


def manifests(scope: Scope = Scope()) -> tuple[JsonObject, ...]:
    """Roles of the scope's services, and their bindings."""
    return tuple(one for service in scope.services for one in manifests_of(service, scope))


def manifests_of(service: str, scope: Scope) -> Iterator[JsonObject]:
    """Roles of one service: the one for everywhere, then those of single namespaces in the order of their names."""
    rows = tuple(permissions_of(service, without=scope.without))
    by_namespace = rules_by_namespace(rows, writes_in=scope.writes_in)
    everywhere = by_namespace.pop("", ())
    paths = tuple(paths_of(service, without=scope.without))
    if everywhere or paths:
        body = [*(rule.body() for rule in everywhere), *map(_path_rule, paths)]
        yield _role(CLUSTER_ROLES, service, rules=body)
        yield _binding(CLUSTER_ROLE_BINDINGS, service, role=CLUSTER_ROLES, scope=scope)
    for namespace, rules in sorted(by_namespace.items()):
        yield _role(ROLES, service, rules=[rule.body() for rule in rules], namespace=namespace)
        yield _binding(ROLE_BINDINGS, service, role=ROLES, scope=scope, namespace=namespace)


def rules_by_namespace(rows: Iterable[Permission], *, writes_in: Sequence[str]) -> dict[str, tuple[Rule, ...]]:
    """Rules by where they hold; "" is everywhere. Rows of one resource become one rule."""
    verbs: dict[str, dict[tuple[str, str, tuple[str, ...]], dict[str, None]]] = {}
    for row in rows:
        for namespace, found in _spread(row, writes_in):
            key = (row.group, row.resource, row.names)
            verbs.setdefault(namespace, {}).setdefault(key, {}).update(dict.fromkeys(found))
    return {
        namespace: tuple(Rule(group, resource, tuple(found), names) for (group, resource, names), found in by.items())
        for namespace, by in verbs.items()
    }


def _spread(row: Permission, writes_in: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where each verb of a row is granted."""
    if row.namespace or not writes_in or row.feature in OF_FABRICS or row.resource.partition("/")[0] in CLUSTER_SCOPED:
        yield row.namespace, row.verbs
        return
    reading = tuple(verb for verb in row.verbs if verb in READING)
    writing = tuple(verb for verb in row.verbs if verb not in READING)
    if reading:
        yield "", reading
    if writing:
        for namespace in writes_in:
            yield namespace, writing


def _path_rule(row: PathPermission) -> JsonObject:
    return {"nonResourceURLs": list(row.paths), "verbs": ["get"]}


def _head(of: Resource, service: str, namespace: str = "") -> JsonObject:
    where: JsonObject = {"namespace": namespace} if namespace else {}
    labels: JsonObject = {"app.kubernetes.io/name": service, "app.kubernetes.io/part-of": "muster"}
    return {
        "apiVersion": of.api_version,
        "kind": of.kind,
        "metadata": {"name": account_of(service), **where, "labels": labels},
    }


def _role(of: Resource, service: str, *, rules: Sequence[JsonObject], namespace: str = "") -> JsonObject:
    return {**_head(of, service, namespace), "rules": list(rules)}


def _binding(of: Resource, service: str, *, role: Resource, scope: Scope, namespace: str = "") -> JsonObject:
    name = account_of(service)
    return {
        **_head(of, service, namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": scope.namespace}],
    }
