"""The figures of one contender."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from muster_tools.bench.kubernetes.counting import Requests
from muster_tools.bench.kubernetes.plan import Contender
from muster_tools.bench.workload import Quantiles

API_SERVER, ETCD, BENCH = "kube-apiserver-0", "etcd", "bench"
OF_THE_PLANE = frozenset({API_SERVER, ETCD, "kube-controller-manager", "kwok", BENCH})
"""Processes that every contender has, including the benchmark; the others belong to the contender."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Cost of a number of followers of the cluster's state, while workloads come and go."""

    what: str
    count: int
    took_s: float
    """How long the followers watched."""
    rss_mib: float
    """Growth of the API server's memory."""
    cpu_s: float
    """Processor time of the API server."""
    requests: Requests
    """Requests to the API server."""
    received_mib: float
    """Bytes received by all followers, in MiB."""

    def document(self) -> dict[str, JsonValue]:
        """Return the figures as JSON; the keys are stable."""
        return {
            "what": self.what,
            "count": self.count,
            "took_s": round(self.took_s, 1),
            "apiserver_rss_mib": round(self.rss_mib, 1),
            "apiserver_cpu_s": round(self.cpu_s, 2),
            "lists": self.requests.lists,
            "lists_of": dict(self.requests.lists_of),
            "watches": self.requests.watches,
            "received_mib": round(self.received_mib, 1),
        }


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one contender."""

    contender: Contender
    workloads: int
    placed: int
    """Number of workloads placed."""
    wall_s: float
    """From the first created to the last bound."""
    latency_ms: Quantiles
    peak_mib: Mapping[str, float]
    """Peak memory by process, from the first workload until the last was bound."""
    cpu_s: Mapping[str, float]
    """Processor time by process, in the same period."""
    start: Requests
    """Requests while the contender started, without earlier requests of the control plane."""
    surge: Requests
    """Requests since the first workload."""
    finished: bool
    """False if the time limit ended the run."""
    running: int = 0
    """Number of workloads whose pods were seen running."""
    running_wall_s: float = 0.0
    """From the first created to the last seen running, which may be well after the last was bound."""
    bound_at_s: tuple[float, ...] = ()
    """When each was bound, since the first was created; ascending."""
    crowds: tuple[Crowd, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def stranded(self) -> int:
        """Return the number of created workloads that were never bound."""
        return self.workloads - self.placed

    @property
    def binds_per_s(self) -> float:
        """Return the bindings per second over `wall_s`."""
        return round(self.placed / self.wall_s, 1) if self.wall_s > 0 else 0.0

    @property
    def running_per_s(self) -> float:
        """Return the running workloads per second over `running_wall_s`."""
        return round(self.running / self.running_wall_s, 1) if self.running_wall_s > 0 else 0.0

    @property
    def own_peak_mib(self) -> float:
        """Return the peak memory of the contender's own processes: its schedulers, or Muster's."""
        return round(sum(value for name, value in self.peak_mib.items() if name not in OF_THE_PLANE), 1)

    @property
    def own_cpu_s(self) -> float:
        """Return the processor time of the same processes."""
        return round(sum(value for name, value in self.cpu_s.items() if name not in OF_THE_PLANE), 2)

    def document(self) -> dict[str, JsonValue]:
        """Return the figures as JSON; the keys are stable."""
        return {
            "contender": self.contender.value,
            "workloads": self.workloads,
            "placed": self.placed,
            "stranded": self.stranded,
            "finished": self.finished,
            "wall_s": round(self.wall_s, 3),
            "binds_per_s": self.binds_per_s,
            "running": self.running,
            "running_wall_s": round(self.running_wall_s, 3),
            "running_per_s": self.running_per_s,
            "create_to_bound_ms": {
                "p50": self.latency_ms.p50,
                "p99": self.latency_ms.p99,
                "max": self.latency_ms.max,
            },
            "peak_mib": dict(self.peak_mib),
            "cpu_s": dict(self.cpu_s),
            "own_peak_mib": self.own_peak_mib,
            "own_cpu_s": self.own_cpu_s,
            "requests": {
                "lists_at_start": self.start.lists,
                "lists_in_surge": self.surge.lists,
                "lists_in_surge_of": dict(self.surge.lists_of),
                "streamed_lists_at_start": self.start.streamed,
                "streamed_lists_in_surge": self.surge.streamed,
                "watches_at_start": self.start.watches,
                "watches_in_surge": self.surge.watches,
                "reads": self.surge.reads,
                "writes": self.surge.writes,
                "by_verb": dict(self.surge.by_verb),
            },
            "crowds": [crowd.document() for crowd in self.crowds],
            "notes": list(self.notes),
        }
