"""Generate RBAC objects from the table of permissions (`permissions`), limited to the used verbs. Pure.

Reads are granted everywhere, because pods of others and nodes count; writes can be limited to the namespaces of jobs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from muster.kube.objects import JsonObject
from muster.kube.permissions import AGENT, GUARD, Feature, PathPermission, Permission, paths_of, permissions_of
from muster.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource

READING = frozenset({"get", "list", "watch"})
OWN_NAMESPACE = "muster"
"""Default namespace of Muster's own pods."""
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
"""Cluster-scoped resources of the table, for which writes cannot be limited to a namespace."""

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
"""Features for clusters whose devices or nodes move or are worked on. They write where machines, drivers and Jobs for
nodes are, not in the namespaces of jobs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role; `names` limits it to objects of these names."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def body(self) -> JsonObject:
        """Return the rule as RBAC has it."""
        named: JsonObject = {"resourceNames": list(self.names)} if self.names else {}
        return {"apiGroups": [self.group], "resources": [self.resource], **named, "verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class Scope:
    """Services and namespaces for which roles are generated."""

    namespace: str = OWN_NAMESPACE
    """Namespace of the service accounts."""
    writes_in: tuple[str, ...] = ()
    """Namespaces of jobs; empty for all."""
    without: tuple[Feature, ...] = ()
    """Features to leave out."""
    services: tuple[str, ...] = (AGENT, GUARD)
    """Services that get roles. The gateway needs one only if it reviews tokens."""


def asked_in(row: Permission, verb: str, writes_in: Sequence[str]) -> tuple[str, ...]:
    """Return the namespaces in which a verb is needed; "" is all. `writes_in` is as in `Scope`."""
    return tuple(namespace for namespace, verbs in _spread(row, writes_in) if verb in verbs)


def account_of(service: str) -> str:
    """Return the name of a service's account and roles."""
    return f"muster-{service}"


def manifests(scope: Scope = Scope()) -> tuple[JsonObject, ...]:
    """Return roles and bindings of the scope's services."""
    return tuple(one for service in scope.services for one in manifests_of(service, scope))


def manifests_of(service: str, scope: Scope) -> Iterator[JsonObject]:
    """Yield the roles of one service: the cluster role, then those of namespaces by name."""
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
    """Return the rules by namespace; "" is all. Rows of one resource become one rule."""
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
    """Yield each namespace with the verbs granted in it."""
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
