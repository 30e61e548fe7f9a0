"""Views of watched objects: a few fields each, so that 10,000 pods take megabytes, not hundreds.

Equal views are no change. Keep views small, and without fields that change without meaning (resourceVersion,
heartbeats).
"""

from dataclasses import dataclass

from muster.agent.core.kubernetes import names
from muster.agent.core.workload_values import AdoptedPod
from muster.core import Instant

NOT_SEEN = Instant(0)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requested resources of a pod; `extended` are devices and other whole resources, sorted by name."""

    cpu_milli: int = 0
    memory_mib: int = 0
    extended: tuple[tuple[str, int], ...] = ()


NO_REQUESTS = Requests()


@dataclass(frozen=True, slots=True)
class Member:
    """The pod and attempt in Muster's labels."""

    cluster: str
    key: names.PodKey


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that created a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class End:
    """The end of a pod.

    `exit_code` is that of its first failed container, otherwise 0; `message` the pod's, or the container's reason
    ("OOMKilled"). `says_done`: its termination message is "done", so that success counts even after a stop.
    `finished_at` and `ran_s` come from its containers, 0 if none ran. `said` is the termination message of node work
    and checks.
    """

    succeeded: bool
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: Instant = NOT_SEEN
    ran_s: float = 0.0
    says_done: bool = False
    disrupted: bool = False
    said: str = ""

    @property
    def told(self) -> str:
        """Return the reason for display; "" if there is none."""
        return ": ".join(filter(None, (self.reason, self.message)))


@dataclass(frozen=True, slots=True)
class PreflightView:
    """Checks of a pod before its first step. `report` is the checks' termination message, None before their end.

    `is_open`: the annotation opens its gate.
    """

    started: bool = False
    report: str | None = None
    exit_code: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `member` is None for foreign pods; `labels` and `owner` are kept only for adopted pods.

    `ends_at`: end of its termination, 0 without one, with `grace_s`. `waiting`: why its containers do not start
    ("ImagePullBackOff"), or "". `devices`: those that the kubelet reports. `plugin`: its kind of plugin, or "", with
    its `created_at`. `preflight`: None without checks. `work`: its work on the node, or "".
    """

    namespace: str
    name: str
    uid: str
    node: str = ""
    phase: str = "Pending"
    scheduler: str = ""
    requests: Requests = NO_REQUESTS
    member: Member | None = None
    end: End | None = None
    ends_at: Instant = NOT_SEEN
    grace_s: int = 0
    waiting: str = ""
    devices: tuple[str, ...] = ()
    checkpointed_at: Instant = NOT_SEEN
    labels: tuple[tuple[str, str], ...] = ()
    owner: Owner | None = None
    gated: bool = False
    adopted: AdoptedPod | None = None
    plugin: str = ""
    created_at: Instant = NOT_SEEN
    preflight: PreflightView | None = None
    work: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.namespace, self.name

    @property
    def is_running(self) -> bool:
        """Return whether all containers were started and one runs."""
        return self.phase == "Running"

    @property
    def is_there(self) -> bool:
        """Return whether it runs, if only its checks."""
        return self.is_running or (self.preflight is not None and self.preflight.started)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `capacity_cpu_milli` includes CPUs reserved for the system.

    `closed`: why it gets no new pods ("cordoned", "taint …"), or "". `labels` and `annotations` are those configured.
    `unneeded`: taint by which the Cluster Autoscaler would remove it. `boot` changes with every start of the machine.
    `address` is the internal one, or "".
    """

    name: str
    uid: str
    allocatable: Requests = NO_REQUESTS
    capacity_cpu_milli: int = 0
    ready: bool = False
    not_ready: str = ""
    closed: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    deleting: bool = False
    unneeded: str = ""
    boot: str = ""
    address: str = ""

    def label(self, key: str) -> str:
        """Return the value of a kept label, "" without it."""
        return next((value for name, value in self.labels if name == key), "")

    def annotation(self, key: str) -> str:
        """Return the value of a kept annotation, "" without it."""
        return next((value for name, value in self.annotations if name == key), "")
