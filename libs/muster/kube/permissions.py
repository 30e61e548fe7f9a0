"""Every permission that Muster uses at an API server: the table from which RBAC is generated and checked.

To send a new kind of request, add its row with the reason; `muster kubernetes rbac` prints the manifests. No row may
name Secrets: listing their metadata needs the same permission as reading them, so Muster does neither.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

AGENT, GUARD, GATEWAY = "agent", "guard", "gateway"
FORBIDDEN = frozenset({"secrets", "*"})
"""Resources that no row may name."""


class Feature(StrEnum):
    """The feature that needs a permission. Without one of CORE the service stops; otherwise the feature is off."""

    CORE = "core"
    EVENTS = "events"
    WORKLOADS = "workloads"
    MUSTERJOBS = "musterjobs"
    JOBSETS = "jobsets"
    MPIJOBS = "mpijobs"
    DRA = "dra"
    CLAIM_TEMPLATES = "claim-templates"
    OWN_NODES = "own-nodes"
    DISRUPTION_BUDGETS = "disruption-budgets"
    NETWORKS = "networks"
    TEAM_NAMESPACES = "team-namespaces"
    PREFLIGHT = "preflight"
    NODE_WORK = "node-work"
    HOT_PLUG = "hot-plug"
    COMPOSABILITY = "composability"
    OPERATOR = "operator"
    MACHINES = "machines"
    OPENSHIFT_MACHINES = "openshift-machines"
    AUTOSCALER = "autoscaler"
    POOL_SLICES = "pool-slices"
    FLOW_CONTROL = "flow-control"
    APISERVER_METRICS = "apiserver-metrics"
    REQUESTS_AT_WORK = "requests-at-work"
    WORKLOAD_SECRETS = "workload-secrets"
    TOKEN_REVIEW = "token-review"  # noqa: S105 - no secret


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on one resource, with the reason for the administrator who grants them."""

    service: str
    group: str
    resource: str
    """With its subresource, as in RBAC ("pods/binding")."""
    verbs: tuple[str, ...]
    why: str
    feature: Feature = Feature.CORE
    namespace: str = ""
    """Namespace to which it is limited; "" for all."""
    names: tuple[str, ...] = ()
    """Names of objects to which it is limited (not for list and create)."""

    def __post_init__(self) -> None:
        if self.resource.partition("/")[0] in FORBIDDEN or "*" in (*self.verbs, self.group, self.resource):
            raise ValueError(
                f"{self.service}: {self.resource}: not allowed for Muster; list single verbs and resources"
            )

    @property
    def title(self) -> str:
        """Return the resource as the API server names it: "pods/binding", "jobs.batch"."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class PathPermission:
    """Permission to read paths that are not resources: "/metrics"."""

    service: str
    paths: tuple[str, ...]
    why: str
    feature: Feature


_SEEN = ("list", "watch")

TABLE: tuple[Permission, ...] = (
    Permission(AGENT, "", "nodes", _SEEN, "what there is to place jobs on"),
    Permission(AGENT, "", "pods", ("get", "list", "watch", "create", "delete"), "pods of jobs; others' use is counted"),
    Permission(AGENT, "", "pods/binding", ("create",), "a pod goes to the node that the scheduler chose"),
    Permission(
        AGENT,
        "",
        "pods/eviction",
        ("create",),
        "preemption respects disruption budgets within the grace",
        Feature.DISRUPTION_BUDGETS,
    ),
    Permission(AGENT, "", "events", ("create",), "what people see in `kubectl describe`", Feature.EVENTS),
    Permission(
        AGENT,
        "",
        "services",
        ("list", "create", "delete"),
        "pods of a gang find each other by name; what a former leader left of it is found",
        Feature.NETWORKS,
    ),
    Permission(
        AGENT,
        "",
        "namespaces",
        _SEEN,
        "which namespaces are marked as a team's (`{team}` in `kubernetes.namespace`)",
        Feature.TEAM_NAMESPACES,
    ),
    Permission(
        AGENT,
        "",
        "pods",
        ("patch",),
        "pods that passed their checks start their work by an annotation",
        Feature.PREFLIGHT,
    ),
    Permission(
        AGENT,
        "batch",
        "jobs",
        ("get", "create"),
        "checks and actions on nodes, as Jobs pinned to them (`preflight.nodes`)",
        Feature.NODE_WORK,
        namespace="muster-nodes",
    ),
    Permission(
        AGENT,
        "",
        "nodes",
        ("patch",),
        "labels and annotations by which others act on a node (`preflight.nodes`)",
        Feature.NODE_WORK,
    ),
    Permission(
        AGENT, "", "pods/status", ("patch",), "why a foreign pod with our scheduler's name waits", Feature.WORKLOADS
    ),
    Permission(
        AGENT,
        "batch",
        "jobs",
        ("list", "watch", "patch"),
        "Jobs of a queue are held and let go",
        Feature.WORKLOADS,
    ),
    Permission(AGENT, "muster.dev", "musterjobs", _SEEN, "jobs as objects", Feature.MUSTERJOBS),
    Permission(AGENT, "muster.dev", "musterjobs/status", ("patch",), "how the job is", Feature.MUSTERJOBS),
    Permission(
        AGENT,
        "jobset.x-k8s.io",
        "jobsets",
        ("list", "watch", "patch"),
        "JobSets of a queue are held and let go",
        Feature.JOBSETS,
    ),
    Permission(
        AGENT,
        "kubeflow.org",
        "mpijobs",
        ("list", "watch", "patch"),
        "MPIJobs of a queue are held and let go",
        Feature.MPIJOBS,
    ),
    Permission(AGENT, "resource.k8s.io", "resourceslices", _SEEN, "devices of nodes", Feature.DRA),
    Permission(
        AGENT,
        "resource.k8s.io",
        "resourceclaims",
        ("get", "list", "watch", "create", "delete", "patch"),
        "a claim per pod; the finalizer that keeps an allocation",
        Feature.DRA,
    ),
    Permission(
        AGENT,
        "resource.k8s.io",
        "resourceclaimtemplates",
        _SEEN,
        "how many devices pods ask for that others make",
        Feature.CLAIM_TEMPLATES,
    ),
    Permission(AGENT, "resource.k8s.io", "resourceclaims/status", ("update",), "the chosen devices", Feature.DRA),
    Permission(
        AGENT, "", "nodes", ("get", "patch"), "nodes with Muster's devices have Muster's taint", Feature.OWN_NODES
    ),
    Permission(
        AGENT,
        "",
        "configmaps",
        ("get", "patch"),
        "which nodes those are, for the admission policies",
        Feature.OWN_NODES,
        namespace="muster",
        names=("muster-own-nodes",),
    ),
    Permission(
        AGENT,
        "muster.dev",
        "nodes",
        ("bind",),
        "by this, which no API serves, the admission policies know Muster (k8s/base/dra)",
        Feature.OWN_NODES,
    ),
    Permission(
        AGENT,
        "resource.k8s.io",
        "resourceclaims/binding",
        ("update",),
        "the same, where the API server asks for it by its own name (1.36 and newer)",
        Feature.DRA,
    ),
    *(
        Permission(AGENT, group, resource, ("list", "watch", "patch"), why, feature)
        for group, feature in (
            ("cluster.x-k8s.io", Feature.MACHINES),
            ("machine.openshift.io", Feature.OPENSHIFT_MACHINES),
        )
        for resource, why in (
            ("machinesets", "nodes of groups come and go by replicas"),
            ("machines", "which machine became which node, and which one goes"),
        )
    ),
    Permission(
        AGENT, "", "events", ("list", "watch"), "what the Cluster Autoscaler says of pods and nodes", Feature.AUTOSCALER
    ),
    Permission(
        AGENT,
        "",
        "configmaps",
        ("get",),
        "which node groups the Cluster Autoscaler cannot grow just now",
        Feature.AUTOSCALER,
        namespace="kube-system",
        names=("cluster-autoscaler-status",),
    ),
    Permission(
        AGENT,
        "cro.hpsys.ibm.ie.com",
        "composabilityrequests",
        ("list", "watch", "patch"),
        "requests for devices as objects; a finalizer keeps one until its devices are back",
        Feature.COMPOSABILITY,
    ),
    Permission(
        AGENT,
        "cro.hpsys.ibm.ie.com",
        "composabilityrequests/status",
        ("patch",),
        "how such a request is served",
        Feature.COMPOSABILITY,
    ),
    Permission(
        AGENT,
        "cro.hpsys.ibm.ie.com",
        "composabilityrequests",
        ("list", "watch", "create", "patch", "delete"),
        "devices are asked of the field's operator",
        Feature.OPERATOR,
    ),
    Permission(
        AGENT,
        "cro.hpsys.ibm.ie.com",
        "composableresources",
        ("list", "watch", "patch"),
        "which devices the operator attached, and which one goes first",
        Feature.OPERATOR,
    ),
    Permission(
        AGENT,
        "resource.k8s.io",
        "resourceslices",
        ("get", "create", "update"),
        "devices in the fabric's pool are published",
        Feature.POOL_SLICES,
    ),
    *(
        Permission(
            AGENT,
            "",
            "pods",
            ("delete",),
            "plugins and drivers look for devices anew on a node whose devices changed (`kubernetes.plugin_pods`)",
            Feature.HOT_PLUG,
            namespace=namespace,
        )
        for namespace in ("gpu-operator", "nvidia-dra-driver-gpu")
    ),
    Permission(
        GUARD,
        "discovery.k8s.io",
        "endpointslices",
        ("list",),
        "where each API server is",
        Feature.APISERVER_METRICS,
        namespace="default",
    ),
    Permission(
        GUARD, "", "pods", _SEEN, "which workloads name many Secrets (never what is in them)", Feature.WORKLOAD_SECRETS
    ),
    Permission(
        GUARD,
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        ("list", "watch", "create", "patch", "delete"),
        "LISTs of guarded kinds go to a level of their own",
        Feature.FLOW_CONTROL,
    ),
    Permission(
        GUARD,
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        ("list", "watch", "create", "patch", "delete"),
        "that level, its ballast, and the shares of all others",
        Feature.FLOW_CONTROL,
    ),
    Permission(
        GATEWAY,
        "authentication.k8s.io",
        "tokenreviews",
        ("create",),
        "users of the cluster use the API with their own tokens (`identity.token_review`)",
        Feature.TOKEN_REVIEW,
    ),
)

PATHS: tuple[PathPermission, ...] = (
    PathPermission(
        GUARD, ("/metrics",), "memory, LISTs and flow control of each API server", Feature.APISERVER_METRICS
    ),
    PathPermission(
        GUARD,
        ("/debug/api_priority_and_fairness/dump_requests",),
        "who lists, where no audit webhook tells",
        Feature.REQUESTS_AT_WORK,
    ),
)


def permissions_of(service: str, *, without: Iterable[Feature] = ()) -> Iterator[Permission]:
    """Return the permissions of a service, in the table's order."""
    left_out = frozenset(without)
    return (row for row in TABLE if row.service == service and row.feature not in left_out)


def paths_of(service: str, *, without: Iterable[Feature] = ()) -> Iterator[PathPermission]:
    """Return the paths of a service."""
    left_out = frozenset(without)
    return (row for row in PATHS if row.service == service and row.feature not in left_out)


def services() -> tuple[str, ...]:
    """Return the services that may use the API server."""
    return tuple(dict.fromkeys(row.service for row in TABLE))
