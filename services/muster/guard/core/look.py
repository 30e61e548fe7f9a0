"""What the guard sees of the API servers at one moment; frozen, so that the core may keep and compare it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core import Instant
from muster.guard.core.flow import Level
from muster.guard.core.pages import MIB, Page
from muster.guard.core.seats import ServerSeats


@dataclass(frozen=True, slots=True)
class Replica:
    """One API server. page: None if it did not answer, then `error` says why. per_minute: LISTs by resource.

    All rates are those since the page before. waits_s_p99: seconds that 99 of 100 requests waited at most, by level.
    memory: moments and MiB, oldest first. streams_max: of one HTTP/2 connection, 0 if unknown.
    """

    name: str
    page: Page | None = None
    error: str = ""
    per_minute: Mapping[str, float] = field(default_factory=dict)
    rejected_per_minute: Mapping[str, float] = field(default_factory=dict)
    waits_s_p99: Mapping[str, float] = field(default_factory=dict)
    requests_per_s: float = 0.0
    cpu_cores: float = 0.0
    memory: tuple[tuple[Instant, float], ...] = ()
    streams_max: int = 0

    @property
    def memory_mib(self) -> float:
        """Resident memory, 0 if unknown."""
        return self.page.rss_bytes / MIB if self.page else 0.0

    @property
    def lists_per_minute(self) -> float:
        """LISTs of all resources."""
        return sum(self.per_minute.values())


@dataclass(frozen=True, slots=True)
class ClientLists:
    """LISTs of one client within the window. agent: its user agent, "" where only the user is known.

    resource: title. per_minute: answered, or seen at work where nobody reports them. lists: in the window.
    """

    agent: str
    user: str
    resource: str
    per_minute: float
    lists: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadSecrets:
    """A workload and the secrets that its pods name. nodes: they run on. lists: of one secret by name, which kubelets
    make for its pods: one for each secret and node, again after each restart of a kubelet and loss of a watch.
    """

    namespace: str
    kind: str
    name: str
    pods: int
    nodes: int
    secrets: int
    lists: int

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.namespace}/{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Pods:
    """What the guard sees of pods. watches_of_node: the most secrets and config maps that one node's pods name, and
    which node. terminated: pods that have ended and are there. threshold: of the controller manager's garbage
    collection, None if unknown. goaway_chance: of the API servers, None if unknown.
    """

    pods: int = 0
    terminated: int = 0
    workloads: tuple[WorkloadSecrets, ...] = ()
    busiest_node: str = ""
    watches_of_node: int = 0
    threshold: int | None = None
    goaway_chance: float | None = None


@dataclass(frozen=True, slots=True)
class FlowLook:
    """One guarded kind's level. found: its fewest and most seats over the replicas, None if there is no such level.

    shares, ballast, total: as they are, or as they would have to be. reason: why it cannot be, or is not, right.
    is_right: objects and seats are as wanted. written: the guard has just written them.
    """

    level: str
    resource: str
    wanted: int
    found: tuple[int, int] | None = None
    shares: int = 0
    ballast: int = 0
    total: int = 0
    is_right: bool = False
    written: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment. levels: None if they may not be read. clients_from: "audit", "requests" (seen at work,
    user names alone) or "" for nothing. pods: None if they may not be read. lacking: sentences on what cannot be seen,
    and why.
    """

    at: Instant
    replicas: tuple[Replica, ...] = ()
    levels: tuple[Level, ...] | None = None
    server: ServerSeats | None = None
    flows: tuple[FlowLook, ...] = ()
    clients: tuple[ClientLists, ...] = ()
    clients_from: str = ""
    pods: Pods | None = None
    lacking: tuple[str, ...] = ()

    @property
    def up(self) -> tuple[Replica, ...]:
        """The API servers that answered."""
        return tuple(replica for replica in self.replicas if replica.page is not None)
