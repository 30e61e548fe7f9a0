"""What the API server serves and lets the agent do, asked once at the start; what is lacking is said in words.

Permissions are asked with SelfSubjectAccessReviews, one per verb of the agent's rows in `muster.kube.permissions`.
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
    Feature.POOL_SLICES: "resource.k8s.io/v1",  # older servers drop the conditions, and a pod would be bound too early
    Feature.MUSTERJOBS: "muster.dev/v1alpha1",
    Feature.JOBSETS: "jobset.x-k8s.io/v1alpha2",
    Feature.MPIJOBS: "kubeflow.org/v2beta1",
    Feature.COMPOSABILITY: "cro.hpsys.ibm.ie.com",
    Feature.OPERATOR: "cro.hpsys.ibm.ie.com",
    Feature.MACHINES: "cluster.x-k8s.io",
    Feature.OPENSHIFT_MACHINES: "machine.openshift.io",
}
"""API groups of features whose kinds need not be served; with the version where an older one will not do. Of
`resource.k8s.io` alone: in any version that `muster.kube.dialects` speaks.
"""
_GROUPS = frozenset(group.partition("/")[0] for group in GROUPS_OF.values())
INSTEAD = {
    Feature.EVENTS: "nothing is told in events",
    Feature.WORKLOADS: "pods and Jobs with our scheduler's name are not taken up",
    Feature.MUSTERJOBS: "MusterJobs are not taken up",
    Feature.JOBSETS: "JobSets are not taken up",
    Feature.MPIJOBS: "MPIJobs are not taken up",
    Feature.DRA: "kubelets pick the GPUs",
    Feature.CLAIM_TEMPLATES: "pods that others make get no devices by claims",
    Feature.OWN_NODES: "other schedulers may use nodes whose devices Muster chooses",
    Feature.DISRUPTION_BUDGETS: "pods are deleted without asking disruption budgets",
    Feature.NETWORKS: "pods of a gang have no names",
    Feature.TEAM_NAMESPACES: "no job of the Muster API runs, since no namespace is known to be its team's",
    Feature.PREFLIGHT: "jobs whose pods Muster makes are not checked before their first step",
    Feature.NODE_WORK: "nodes are neither checked nor worked on",
    Feature.HOT_PLUG: "plugins find new devices by themselves",
    Feature.COMPOSABILITY: "ComposabilityRequests are not taken up",
    Feature.OPERATOR: "no device is asked of the field's operator",
    Feature.MACHINES: "nodes are not added or removed",
    Feature.OPENSHIFT_MACHINES: "nodes are not added or removed",
    Feature.AUTOSCALER: "the Cluster Autoscaler's wishes are not heard",
    Feature.POOL_SLICES: "devices of the fabric are not published",
}


NOT_SERVED = "is not served"


class AbilityError(Exception):
    """The cluster lacks what Muster cannot do without, or what the settings say it must have."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """version: of the API server. served: optional API groups. without: features that cannot be had, and why.

    devices_api: the version of `resource.k8s.io` that is spoken; "" where none is.
    """

    version: str
    served: frozenset[str]
    without: tuple[tuple[Feature, str], ...] = ()
    devices_api: str = ""

    def has(self, feature: Feature) -> bool:
        """Whether the feature's kinds are served and all its permissions are granted."""
        return all(feature is not missing for missing, _ in self.without)

    def unserved(self, features: Iterable[Feature]) -> frozenset[Feature]:
        """Those whose API group is not served; it may be some day."""
        asked = frozenset(features)
        return frozenset(one for one, why in self.without if one in asked and why.endswith(NOT_SERVED))

    def grown(self, found: Iterable[Feature], more: "Abilities") -> "Abilities":
        """With these features looked at anew. more: as they are now."""
        others = tuple((one, why) for one, why in self.without if one not in frozenset(found))
        return Abilities(self.version, self.served | more.served, others + more.without, more.devices_api)

    def lacking(self, wanted: Iterable[Feature]) -> tuple[str, ...]:
        """In words, of these features: what is missing, and what is done instead."""
        asked = frozenset(wanted)
        return tuple(f"{why}; {INSTEAD[feature]}" for feature, why in self.without if feature in asked)


async def find_abilities(
    connection: KubeConnection, *, wanted: Sequence[Feature], writes_in: Sequence[str] = ()
) -> Abilities:
    """Ask the API server. writes_in: namespaces in which jobs are; none: all of them.

    Raises AbilityError where it is too old or a core permission is missing, and KubeError.
    """
    version = await connection.get_path("/version")
    number = tuple(int("".join(filter(str.isdigit, text(version, key))) or 0) for key in ("major", "minor"))
    if number < OLDEST:
        raise AbilityError(
            f"the API server is of version {text(version, 'gitVersion')}; Muster needs {OLDEST[0]}.{OLDEST[1]} or newer"
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
    """API groups alone, and with each of their versions. Raises KubeError."""
    return frozenset(_served(objects(await connection.get_path("/apis"), "groups")))


def described(
    abilities: Abilities, settings: KubernetesSettings, *, claims: bool, wanted: Sequence[Feature]
) -> ClusterDescribed:
    """The fact `described`. claims: devices come by claims here, so that the scheduler picks them."""
    return ClusterDescribed(
        backend="kubernetes",
        version=abilities.version,
        devices="scheduler" if claims else "kubelet",
        sharing=settings.sharing.mode,
        served=tuple(sorted(map(_in_version(abilities.devices_api), abilities.served))),
        lacking=tuple(words[:1024] for words in abilities.lacking(wanted)),
    )


def _in_version(devices_api: str) -> Callable[[str], str]:
    """A group as it is told: that of devices with the version that is spoken."""

    def told(group: str) -> str:
        return f"{group}/{devices_api}" if group == dialects.GROUP and devices_api else group

    return told


def _served(groups: Iterable[JsonObject]) -> Iterator[str]:
    """Groups alone, and with each of their versions."""
    for group in groups:
        yield text(group, "name")
        yield from (text(version, "groupVersion") for version in objects(group, "versions"))


async def _denied(
    connection: KubeConnection, rows: Iterable[Permission], writes_in: Sequence[str]
) -> list[tuple[Permission, str, str]]:
    """Rows and verbs that the agent may not, and where."""
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
