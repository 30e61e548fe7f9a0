"""What is to be done at the API server, as values; and what came of it.

A call is safe to repeat: names are deterministic, deletions and bindings carry the uid, replacements the version that
was read. Who made a call is told its outcome exactly once, also when another leader may have done the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.kube.objects import JsonObject


class Kind(StrEnum):
    """Kinds that the agent writes, as permissions title them."""

    PODS = "pods"
    NODES = "nodes"
    SERVICES = "services"
    CONFIG_MAPS = "configmaps"
    EVENTS = "events"
    JOBS = "jobs.batch"
    CLAIMS = "resourceclaims.resource.k8s.io"
    SLICES = "resourceslices.resource.k8s.io"
    MUSTER_JOBS = "musterjobs.muster.dev"
    MPI_JOBS = "mpijobs.kubeflow.org"
    JOB_SETS = "jobsets.jobset.x-k8s.io"
    MACHINE_SETS = "machinesets.cluster.x-k8s.io"
    MACHINES = "machines.cluster.x-k8s.io"
    OPENSHIFT_MACHINE_SETS = "machinesets.machine.openshift.io"
    OPENSHIFT_MACHINES = "machines.machine.openshift.io"
    COMPOSABILITY_REQUESTS = "composabilityrequests.cro.hpsys.ibm.ie.com"
    COMPOSABLE_RESOURCES = "composableresources.cro.hpsys.ibm.ie.com"


@dataclass(frozen=True, slots=True)
class _OnObject:
    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Create(_OnObject):
    """A new object. body: with kind, metadata and all. brief: of the reply nothing but its metadata is wanted."""

    body: JsonObject = field(compare=False)
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod to a node, if it still is the pod of this uid."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Delete(_OnObject):
    """Delete an object, if it still is the one of this uid ("": whichever).

    grace_s: of a pod; None: its own, 0: at once, without waiting for the kubelet.
    """

    uid: str = ""
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask a pod to leave as a disruption budget allows: refused by `code` 429 as long as it does not."""

    namespace: str
    name: str
    uid: str
    grace_s: int


@dataclass(frozen=True, slots=True)
class Replace(_OnObject):
    """Put `body` in the object's place if it still has the version that `body` says. subresource: "status" or ""."""

    body: JsonObject = field(compare=False)
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Merge(_OnObject):
    """A merge patch (RFC 7386). subresource: "status" or ""."""

    body: JsonObject = field(compare=False)
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Read(_OnObject):
    """The object as it is now."""


Call = Create | Bind | Delete | Evict | Replace | Merge | Read


@dataclass(frozen=True, slots=True)
class Done:
    """It was done. reply: the object as it is now, or a Status."""

    reply: Mapping[str, object] = field(default_factory=dict)


NOT_FOUND, CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class Refused:
    """The server answered that it will not; the same call again will be refused again, unless something changes.

    code: of HTTP (409 conflict or exists already, 404 not there, 403, 422, 429 by a disruption budget). reason: of its
    Status ("AlreadyExists", "Conflict"); message: what a person may read.
    """

    code: int
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nobody knows whether it was done: the server does not answer, or is overloaded. It may be repeated.

    reached: the server answered, with an error of its own (5xx, 429), which may concern this call alone.
    """

    message: str = ""
    retry_after_s: float = 0.0
    reached: bool = False


Outcome = Done | Refused | Unanswered
