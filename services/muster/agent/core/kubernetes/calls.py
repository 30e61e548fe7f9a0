"""Calls to the API server, as values, and their outcomes.

A call is safe to repeat: names are deterministic, deletions and bindings carry the uid, replacements the version that
was read. The owner of a call gets its outcome exactly once, even if another leader did the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.kube.objects import JsonObject


class Kind(StrEnum):
    """Kinds that the agent writes, as titled in permissions."""

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
    """Create an object; `brief`: only its metadata is returned."""

    body: JsonObject = field(compare=False)
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod to a node, if it still has this uid."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Delete(_OnObject):
    """Delete an object, if it still has this uid ("": any).

    `grace_s` is that of a pod; None: its own, 0: at once, without waiting for the kubelet.
    """

    uid: str = ""
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod: refused with `code` 429 while a disruption budget forbids it."""

    namespace: str
    name: str
    uid: str
    grace_s: int


@dataclass(frozen=True, slots=True)
class Replace(_OnObject):
    """Replace an object that still has the version in `body`. `subresource` is "status" or ""."""

    body: JsonObject = field(compare=False)
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Merge(_OnObject):
    """Apply a merge patch (RFC 7386). `subresource` is "status" or ""."""

    body: JsonObject = field(compare=False)
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Read(_OnObject):
    """Read an object."""


Call = Create | Bind | Delete | Evict | Replace | Merge | Read


@dataclass(frozen=True, slots=True)
class Done:
    """The call succeeded; `reply` is the new object or a Status."""

    reply: Mapping[str, object] = field(default_factory=dict)


NOT_FOUND, CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class Refused:
    """The server refused the call, and will refuse it again unless something changes.

    `code` is HTTP's (409 conflict or exists, 404 not found, 403, 422, 429 by a disruption budget), `reason` that of the
    Status ("AlreadyExists", "Conflict").
    """

    code: int
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The result is unknown: the server does not answer, or is overloaded. The call may be repeated.

    `reached`: the server answered with an error of its own (5xx, 429), which may concern only this call.
    """

    message: str = ""
    retry_after_s: float = 0.0
    reached: bool = False


Outcome = Done | Refused | Unanswered
