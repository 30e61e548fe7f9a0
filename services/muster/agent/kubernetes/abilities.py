"""Check once at the start which features the API server serves and permits, and report the missing ones.

Permissions are checked with SelfSubjectAccessReviews, one for each verb of the agent's rows in
`muster.kube.permissions`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from muster.bus.kubernetes_settings import KubernetesSettings
from muster.kube import dialects
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, objects, text, truth
from muster.kube.permissions import AGENT, Feature, Permission, permissions_of
from muster.kube.rbac import asked_in
from muster.kube.resources import SELF_SUBJECT_ACCESS_REVIEWS
from muster.schemas.facts.control import ClusterDescribed

OLDEST = (1, 32)
ASKED_AT_A_TIME = 8
GROUPS_OF = {
    Feature.DRA: dialects.GROUP,
    Feature.CLAIM_TEMPLATES: dialects.GROUP,
    Feature.POOL_SLICES: "resource.k8s.io/v1",  # older servers drop the conditions, so a pod would be bound too early
    Feature.MUSTERJOBS: "muster.dev/v1alpha1",
    Feature.JOBSETS: "jobset.x-k8s.io/v1alpha2",
    Feature.MPIJOBS: "kubeflow.org/v2beta1",
    Feature.COMPOSABILITY: "cro.hpsys.ibm.ie.com",
    Feature.OPERATOR: "cro.hpsys.ibm.ie.com",
    Feature.MACHINES: "cluster.x-k8s.io",
    Feature.OPENSHIFT_MACHINES: "machine.openshift.io",
}
"""API groups of optional features; with a version where an older one is not enough. `resource.k8s.io` counts in any
version that `muster.kube.dialects` knows.
"""
_GROUPS = frozenset(group.partition("/")[0] for group in GROUPS_OF.values())
INSTEAD = {
    Feature.EVENTS: "no events are created",
    Feature.WORKLOADS: "pods and Jobs of Muster queues are ignored",
    Feature.MUSTERJOBS: "MusterJobs are ignored",
    Feature.JOBSETS: "JobSets are ignored",
    Feature.MPIJOBS: "MPIJobs are ignored",
    Feature.DRA: "kubelets pick the GPUs",
    Feature.CLAIM_TEMPLATES: "pods created by others get no devices by claims",
    Feature.OWN_NODES: "other schedulers may use nodes whose devices Muster chooses",
    Feature.DISRUPTION_BUDGETS: "pods are deleted without asking disruption budgets",
    Feature.NETWORKS: "pods of a gang have no names",
    Feature.TEAM_NAMESPACES: "no job of the Muster API runs, because namespaces of teams are unknown",
    Feature.PREFLIGHT: "no pre-flight checks run in pods that Muster creates",
    Feature.NODE_WORK: "no checks or actions run on nodes",
    Feature.HOT_PLUG: "plugins are not restarted to find new devices",
    Feature.COMPOSABILITY: "ComposabilityRequests are ignored",
    Feature.OPERATOR: "no device is requested from the Composable Resource Operator",
    Feature.MACHINES: "nodes are not added or removed",
    Feature.OPENSHIFT_MACHINES: "nodes are not added or removed",
    Feature.AUTOSCALER: "requests of the Cluster Autoscaler are ignored",
    Feature.POOL_SLICES: "devices of the fabric are not published",
}


NOT_SERVED = "is not served"


class AbilityError(Exception):
    """The cluster lacks a feature that Muster needs or that the settings require."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Features of an API server."""

    version: str
    served: frozenset[str]
    """Optional API groups."""
    without: tuple[tuple[Feature, str], ...] = ()
    """Missing features, and why."""
    devices_api: str = ""
    """Version of `resource.k8s.io` in use; "" for none."""

    def has(self, feature: Feature) -> bool:
        """Return whether the feature's kinds are served and all its permissions granted."""
        return all(feature is not missing for missing, _ in self.without)

    def unserved(self, features: Iterable[Feature]) -> frozenset[Feature]:
        """Return the features whose API group is not served yet."""
        asked = frozenset(features)
        return frozenset(one for one, why in self.without if one in asked and why.endswith(NOT_SERVED))

    def grown(self, found: Iterable[Feature], more: "Abilities") -> "Abilities":
        """Return these abilities with the features `found` replaced by those of `more`."""
        others = tuple((one, why) for one, why in self.without if one not in frozenset(found))
        return Abilities(self.version, self.served | more.served, others + more.without, more.devices_api)

    def lacking(self, wanted: Iterable[Feature]) -> tuple[str, ...]:
        """Return a sentence for each missing feature: the reason and the consequence."""
        asked = frozenset(wanted)
        return tuple(f"{why}; {INSTEAD[feature]}" for feature, why in self.without if feature in asked)


async def find_abilities(
    connection: KubeConnection, *, wanted: Sequence[Feature], writes_in: Sequence[str] = ()
) -> Abilities:
    """Query the API server. `writes_in` lists the namespaces of jobs; empty for all.

    Raises AbilityError if it is too old or a core permission is missing, and KubeError.
    """
    version = await connection.get_path("/version")
    number = tuple(int("".join(filter(str.isdigit, text(version, key))) or 0) for key in ("major", "minor"))
    if number < OLDEST:
        raise AbilityError(
            f"the API server has version {text(version, 'gitVersion')}; Muster needs {OLDEST[0]}.{OLDEST[1]} or newer"
        )
    groups = await served_groups(connection)
    without: dict[Feature, str] = {}
    for feature in wanted:
        group = GROUPS_OF.get(feature)
        if group is not None and not dialects.is_served(group, groups):
            spoken = f" ({' or '.join(dialects.VERSIONS)})" if group == dialects.GROUP else ""
            without[feature] = f"API group {group}{spoken} {NOT_SERVED}"
    rows = [row for row in permissions_of(AGENT) if row.feature not in without]
    asked = [row for row in rows if row.feature in (Feature.CORE, *wanted)]
    for row, verb, namespace in await _denied(connection, asked, writes_in):
        where = f" in namespace {namespace}" if namespace else ""
        words = f"permission to {verb} {row.title}{where} is missing ({row.why})"
        if row.feature is Feature.CORE:
            raise AbilityError(f"{words}; grant it: `muster kubernetes rbac` prints the manifests")
        without.setdefault(row.feature, words)
    prefix = f"{dialects.GROUP}/"
    spoken = dialects.newest(group.removeprefix(prefix) for group in groups if group.startswith(prefix))
    return Abilities(text(version, "gitVersion"), groups & _GROUPS, tuple(without.items()), spoken)


async def served_groups(connection: KubeConnection) -> frozenset[str]:
    """Return the API groups, alone and with each version. Raises KubeError."""
    return frozenset(_served(objects(await connection.get_path("/apis"), "groups")))


def described(
    abilities: Abilities, settings: KubernetesSettings, *, claims: bool, wanted: Sequence[Feature]
) -> ClusterDescribed:
    """Return the fact `described`. `claims`: devices are allocated by claims, so the scheduler picks them."""
    return ClusterDescribed(
        backend="kubernetes",
        version=abilities.version,
        devices="scheduler" if claims else "kubelet",
        sharing=settings.sharing.mode,
        served=tuple(sorted(map(_in_version(abilities.devices_api), abilities.served))),
        lacking=tuple(words[:1024] for words in abilities.lacking(wanted)),
        namespace=settings.namespace,
    )


def _in_version(devices_api: str) -> Callable[[str], str]:
    """Return a function that adds the version in use to the group of devices."""

    def told(group: str) -> str:
        return f"{group}/{devices_api}" if group == dialects.GROUP and devices_api else group

    return told


def _served(groups: Iterable[JsonObject]) -> Iterator[str]:
    """Yield groups, alone and with each version."""
    for group in groups:
        yield text(group, "name")
        yield from (text(version, "groupVersion") for version in objects(group, "versions"))


async def _denied(
    connection: KubeConnection, rows: Iterable[Permission], writes_in: Sequence[str]
) -> list[tuple[Permission, str, str]]:
    """Return the rows, verbs and namespaces that are not permitted."""
    gate = asyncio.Semaphore(ASKED_AT_A_TIME)

    async def may(row: Permission, verb: str, namespace: str) -> bool:
        resource, _, subresource = row.resource.partition("/")
        attributes = {
            "group": row.group, "resource": resource, "subresource": subresource, "verb": verb,
            "namespace": namespace, "name": row.names[0] if row.names else "",
        }  # fmt: skip
        body: dict[str, object] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        async with gate:
            return truth(await connection.create(SELF_SUBJECT_ACCESS_REVIEWS, body), "status", "allowed")

    asked = [(row, verb, where) for row in rows for verb in row.verbs for where in asked_in(row, verb, writes_in)]
    answers = await asyncio.gather(*(may(*one) for one in asked))
    return [one for one, allowed in zip(asked, answers, strict=True) if not allowed]
