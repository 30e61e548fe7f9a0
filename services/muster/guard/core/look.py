"""Describe what the guard observed at one moment; frozen, so that the core may keep and compare it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core import Instant
from muster.guard.core.flow import Level
from muster.guard.core.pages import MIB, Page
from muster.guard.core.seats import ServerSeats


@dataclass(frozen=True, slots=True)
class Replica:
    """One API server. All rates are since the page before."""

    name: str
    page: Page | None = None
    """None if it did not answer; then `error` has the reason."""
    error: str = ""
    per_minute: Mapping[str, float] = field(default_factory=dict)
    """LISTs by resource."""
    rejected_per_minute: Mapping[str, float] = field(default_factory=dict)
    waits_s_p99: Mapping[str, float] = field(default_factory=dict)
    """99th percentile of the queue time by level, in seconds."""
    requests_per_s: float = 0.0
    cpu_cores: float = 0.0
    memory: tuple[tuple[Instant, float], ...] = ()
    """Times and MiB, oldest first."""
    streams_max: int = 0
    """Stream limit of one HTTP/2 connection, 0 if unknown."""

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
    """LISTs of one client within the window; `agent` is "" where only the user is known."""

    agent: str
    user: str
    resource: str
    per_minute: float
    """Answered LISTs, or LISTs seen in flight without an audit webhook."""
    lists: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadSecrets:
    """A workload and the secrets that its pods name."""

    namespace: str
    kind: str
    name: str
    pods: int
    nodes: int
    secrets: int
    lists: int
    """LISTs of one secret by name: one for each secret and node, again after a kubelet restart or a lost watch."""

    @property
    def title(self) -> str:
        """Return the name for display."""
        return f"{self.namespace}/{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Pods:
    """The guard's state of all pods."""

    pods: int = 0
    terminated: int = 0
    workloads: tuple[WorkloadSecrets, ...] = ()
    busiest_node: str = ""
    watches_of_node: int = 0
    """Secrets and config maps that the pods of `busiest_node` name."""
    threshold: int | None = None
    """--terminated-pod-gc-threshold of the controller manager, None if unknown."""
    goaway_chance: float | None = None
    """--goaway-chance of the API servers, None if unknown."""


@dataclass(frozen=True, slots=True)
class FlowLook:
    """The level of one guarded kind. `shares`, `ballast` and `total` are as they are or would have to be."""

    level: str
    resource: str
    wanted: int
    found: tuple[int, int] | None = None
    """Fewest and most seats over the replicas, None without such a level."""
    shares: int = 0
    ballast: int = 0
    total: int = 0
    is_right: bool = False
    """Whether objects and seats are as wanted; otherwise `reason` says why not."""
    written: bool = False
    """Whether the guard has just written them."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that was observed at one moment. `levels` and `pods` are None if they may not be read."""

    at: Instant
    replicas: tuple[Replica, ...] = ()
    levels: tuple[Level, ...] | None = None
    server: ServerSeats | None = None
    flows: tuple[FlowLook, ...] = ()
    clients: tuple[ClientLists, ...] = ()
    clients_from: str = ""
    """Source of `clients`: "audit", "requests" (in flight, user names only) or "" for none."""
    pods: Pods | None = None
    lacking: tuple[str, ...] = ()
    """Sentences on what cannot be observed, and why."""

    @property
    def up(self) -> tuple[Replica, ...]:
        """The API servers that answered."""
        return tuple(replica for replica in self.replicas if replica.page is not None)
