"""Cost and use of a run, counted fact by fact; watches an engine.

Power model: a host that is on draws its idle watts, and up to its busy watts in proportion to the cores that jobs on it
request; a GPU on such a host draws its idle watts, and up to its busy watts in proportion to the share that jobs
request (a whole GPU given to a task that requests a third of one is a third busy). A host is on from the decision to
add it until it has left; a composable GPU from the call that attaches it until it is detached. Cooling, switches and
the fabric are not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core import Fact, Instant, after
from muster.core.instant import seconds_between
from muster.schemas.facts.job import JobPlaced, JobRouted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import TERMINAL_PHASES

MILLI = 1000
S_PER_H = 3600.0
J_PER_KWH = 3.6e6
SAMPLES = 240
"""Number of points of a line in the chart."""
FREES = frozenset({"queued", *(phase.value for phase in TERMINAL_PHASES)})


@dataclass(frozen=True, slots=True)
class Power:
    """Power in watts of a host without its GPUs, of a GPU, and of a GPU in the pool. host_cpu_milli: of one host."""

    host_idle_w: float
    host_busy_w: float
    host_cpu_milli: int
    gpu_idle_w: float
    gpu_busy_w: float
    pool_gpu_w: float


@dataclass(frozen=True, slots=True)
class Point:
    """State `hours` after the start. hosts, gpus: switched on; asked: GPUs that running jobs request."""

    hours: float
    hosts: int
    gpus: int
    asked: float


@dataclass(slots=True)
class Meter:
    """Counts until `ends_at`; *_s sums are over virtual time."""

    power: Power
    all_gpus: int
    """GPUs of the fleet, also those that are off."""
    asked_milli: Mapping[str, int]
    """Requested GPU shares, by job."""
    begins_at: Instant
    ends_at: Instant
    gpus_per_host: int = 0
    points: list[Point] = field(default_factory=list)
    on_gpu_s: float = 0.0
    asked_gpu_s: float = 0.0
    on_host_s: float = 0.0
    joules: float = 0.0
    pool_joules: float = 0.0
    attached: int = 0
    detached: int = 0
    nodes_added: int = 0
    nodes_removed: int = 0
    _at: Instant = field(init=False)
    _next_point: Instant = field(init=False)
    _hosts: set[str] = field(default_factory=set)
    _moving_gpus: set[str] = field(default_factory=set)
    _built_in: dict[str, int] = field(default_factory=dict)
    _cpu_asked: dict[str, int] = field(default_factory=dict)
    _running: dict[str, tuple[int, int]] = field(default_factory=dict)
    _running_milli: int = 0
    _running_cpu: int = 0

    def __post_init__(self) -> None:
        self._at = self._next_point = self.begins_at

    def watch(self, fact: Fact) -> None:
        """Fold one fact."""
        self._pass_time(fact.time)
        match fact.kind:
            case "job":
                self._job(fact)
            case "node":
                self._node(fact)
            case "scale" if fact.name == "node-add-chosen" and isinstance(fact.payload, ScaleChosen):
                self._turn_on(fact.payload.node, self.gpus_per_host)
                self.nodes_added += 1
            case "attachment":
                self._attachment(fact)

    def close(self) -> None:
        """End the comparison."""
        self._pass_time(self.ends_at)
        self._next_point = self.ends_at
        self.points.append(self._point())

    @property
    def gpus_on(self) -> int:
        """Return the number of GPUs that draw power now."""
        return sum(self._built_in.values()) + len(self._moving_gpus)

    @property
    def hours(self) -> float:
        """Return the virtual hours so far."""
        return seconds_between(self.begins_at, self._at) / S_PER_H

    def _pass_time(self, now: Instant) -> None:
        now = min(now, self.ends_at)
        while self._next_point < now:  # a point shows the state after all facts of its moment
            self.points.append(self._point())
            self._next_point = after(self._next_point, seconds_between(self.begins_at, self.ends_at) / SAMPLES)
        if now <= self._at:
            return
        seconds, gpus, asked = seconds_between(self._at, now), self.gpus_on, self._running_milli / MILLI
        power = self.power
        cpu = self._running_cpu / power.host_cpu_milli
        watts = len(self._hosts) * power.host_idle_w + cpu * (power.host_busy_w - power.host_idle_w)
        watts += gpus * power.gpu_idle_w + asked * (power.gpu_busy_w - power.gpu_idle_w)
        self.joules += watts * seconds
        self.pool_joules += (self.all_gpus - gpus) * power.pool_gpu_w * seconds
        self.on_gpu_s += gpus * seconds
        self.asked_gpu_s += asked * seconds
        self.on_host_s += len(self._hosts) * seconds
        self._at = now

    def _point(self) -> Point:
        hours = seconds_between(self.begins_at, self._next_point) / S_PER_H
        return Point(hours, len(self._hosts), self.gpus_on, self._running_milli / MILLI)

    def _job(self, fact: Fact) -> None:
        job = fact.subject_id
        if isinstance(fact.payload, JobRouted):
            self._cpu_asked[job] = sum(group.cpu_milli for group in fact.payload.job.spec.task_groups)
        elif isinstance(fact.payload, JobPlaced):
            self._free(job)
            self._running[job] = held = self.asked_milli.get(job, 0), self._cpu_asked.get(job, 0)
            self._running_milli += held[0]
            self._running_cpu += held[1]
        elif fact.name in FREES:
            self._free(job)

    def _free(self, job: str) -> None:
        milli, cpu = self._running.pop(job, (0, 0))
        self._running_milli -= milli
        self._running_cpu -= cpu

    def _node(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeJoined):
            self._turn_on(fact.subject_id, 0 if fact.payload.machine else len(fact.payload.present))
        elif fact.name == "left":
            self._hosts.discard(fact.subject_id)
            self._built_in.pop(fact.subject_id, None)
            self.nodes_removed += 1
        elif fact.name == "provision-failed":
            self._hosts.discard(fact.subject_id)
            self._built_in.pop(fact.subject_id, None)

    def _turn_on(self, node: str, gpus: int) -> None:
        self._hosts.add(node)
        self._built_in[node] = gpus

    def _attachment(self, fact: Fact) -> None:
        if fact.name == "attaching":
            self._moving_gpus.add(fact.subject_id)
        elif fact.name == "attached":
            self._moving_gpus.add(fact.subject_id)
            self.attached += 1
        elif fact.name in ("detached", "failed"):
            self._moving_gpus.discard(fact.subject_id)
            self.detached += fact.name == "detached"
