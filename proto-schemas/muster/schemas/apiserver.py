"""State of clusters and API servers: `GET /v1/apiserver`, `GET /v1/clusters`, `muster guard report`, the dashboard."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Text, Wire
from muster.schemas.facts.guard import AdviceRaised

REPLICAS_MAX = 16
POINTS_MAX = 240
LISTERS_MAX = 50
LEVELS_MAX = 64
ADVICES_MAX = 200
KINDS_MAX = 50


class MemoryPoint(Wire):
    """Resident memory of a replica at one time."""

    at: InstantNs
    memory_mib: float


class ApiServerReplica(Wire):
    """One API server, from its newest metrics.

    started_at: 0 if unknown. memory: about the last hour, oldest first. in_flight: requests under way, reading and
    mutating. requests_per_s: over the last interval. error: why its metrics cannot be read, "" if they can.
    """

    name: str
    version: str = ""
    started_at: InstantNs = 0
    memory_mib: float = 0.0
    cpu_cores: float = 0.0
    in_flight: int = 0
    in_flight_mutating: int = 0
    requests_per_s: float = 0.0
    lists_per_s: float = 0.0
    watches: int = 0
    memory: Annotated[tuple[MemoryPoint, ...], Field(max_length=POINTS_MAX)] = ()
    seen_at: InstantNs = 0
    error: Text = ""


class Lister(Wire):
    """LIST requests of one client for one resource. client: its user agent, or its user if only that is known
    (`known_by`)."""

    client: str
    known_by: str = "user-agent"
    resource: str = ""
    lists_per_minute: float = 0.0
    lists: int = 0


class FlowLevel(Wire):
    """A priority level over all replicas. seats: nominal, per replica; wanted: as the guard maintains it, or 0."""

    name: str
    seats: int = 0
    wanted: int = 0
    executing: int = 0
    queued: int = 0
    rejected: int = 0
    rejected_per_minute: float = 0.0
    wait_ms_p99: float = 0.0
    is_exempt: bool = False


class StoredKind(Wire):
    """Objects of one kind in the API server's storage. bytes: its estimate, 0 without one."""

    resource: str
    objects: int = 0
    bytes: int = 0


class StandingAdvice(AdviceRaised):
    """One active advice, as it was last raised."""

    id: str
    """Subject of its facts."""
    since: InstantNs = 0
    """When it was first raised."""


class ApiServerReport(Wire):
    """The guard's report. guarded: whether a guard watches a real cluster. applies: whether it maintains flow control.

    lacking: missing data or permissions, and how to provide them.
    """

    cluster: str = ""
    guarded: bool = False
    applies: bool = False
    at: InstantNs = 0
    replicas: Annotated[tuple[ApiServerReplica, ...], Field(max_length=REPLICAS_MAX)] = ()
    memory_skew: float = 0.0
    listers: Annotated[tuple[Lister, ...], Field(max_length=LISTERS_MAX)] = ()
    levels: Annotated[tuple[FlowLevel, ...], Field(max_length=LEVELS_MAX)] = ()
    kinds: Annotated[tuple[StoredKind, ...], Field(max_length=KINDS_MAX)] = ()
    advices: Annotated[tuple[StandingAdvice, ...], Field(max_length=ADVICES_MAX)] = ()
    lacking: tuple[Text, ...] = ()


class AskReport(Wire):
    """Question to the guard (`report`): the state of the API servers."""


class ClusterView(Wire):
    """A cluster, as `GET /v1/clusters` shows it: its properties (`described`) and its present use.

    Answered by its scheduler (`cluster`, asked with `AskFleet`). state: active, draining, drained or lost, from the
    federation.
    """

    name: str
    state: str = "active"
    backend: str = "simulated"
    version: str = ""
    devices: str = "scheduler"
    sharing: str = "any"
    served: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    namespace: str = ""
    nodes: int = 0
    gpu_milli_total: int = 0
    gpu_milli_free: int = 0
    jobs_queued: int = 0
    jobs_running: int = 0
