"""What is kept of the objects that are watched: a few fields each, so that 10,000 pods take megabytes, not hundreds.

What compares equal to what is known is no change. Keep the views small, and free of what changes without meaning
(resourceVersion, heartbeats).
"""

from dataclasses import dataclass

from muster.agent.core.kubernetes import names
from muster.agent.core.workload_values import AdoptedPod
from muster.core import Instant

NOT_SEEN = Instant(0)


@dataclass(frozen=True, slots=True)
class Requests:
    """What a pod asks of its node. extended: devices and other whole things, by resource name, sorted."""

    cpu_milli: int = 0
    memory_mib: int = 0
    extended: tuple[tuple[str, int], ...] = ()


NO_REQUESTS = Requests()


@dataclass(frozen=True, slots=True)
class Member:
    """Which pod of which attempt its labels say that it is."""

    cluster: str
    key: names.PodKey


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that made a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class End:
    """How a pod ended. exit_code: of its first container that failed, else 0. message: the pod's, or why that container
    ended ("OOMKilled"). says_done: its program declared itself done (termination message "done"), so that success
    counts also where it had been told to stop.

    finished_at, ran_s: of its containers, by the kubelet's clock; 0 where none ever ran. said: what its program left
    behind as its termination message, of work on nodes and of checks.
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
        """Why, in words; "" if nobody said."""
        return ": ".join(filter(None, (self.reason, self.message)))


@dataclass(frozen=True, slots=True)
class PreflightView:
    """A pod that is checked before its first step. report: what the container of the checks left behind, None: it has
    not ended. is_open: the annotation says that its gate is open.
    """

    started: bool = False
    report: str | None = None
    exit_code: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. member: of Muster's own labels, None for others'. labels, owner: kept only of pods that Muster shall bind
    and did not make.

    ends_at: until when it was asked to end, 0 if nobody asked; grace_s: that it was given. waiting: why its containers
    do not start ("ImagePullBackOff"), "" if nothing holds them up. devices: what the kubelet gave it, where it tells.
    plugin: of which sort of plugin it is, "" if of none; created_at: of a plugin's. preflight: None: it is not checked.
    work: which work on its node it does, "" if none.
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
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def is_running(self) -> bool:
        """All containers were started and one runs."""
        return self.phase == "Running"

    @property
    def is_there(self) -> bool:
        """It runs, if only the checks before its first step."""
        return self.is_running or (self.preflight is not None and self.preflight.started)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. allocatable: to pods; capacity_cpu_milli: with what is kept for the system. closed: why nothing new is to
    be placed there ("cordoned", "taint …"), "" if nothing speaks against. labels, annotations: those asked for.
    unneeded: the taint by which the Cluster Autoscaler says that it would remove the node. boot: another one after
    every start of the machine. address: within the cluster's network, "" if it has none.
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
        """Value of a label that was asked for, "" if the node has none."""
        return next((value for name, value in self.labels if name == key), "")

    def annotation(self, key: str) -> str:
        """The same of an annotation."""
        return next((value for name, value in self.annotations if name == key), "")
