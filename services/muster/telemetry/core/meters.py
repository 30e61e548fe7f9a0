"""Sums up what was measured of live jobs, while the service leads: no part of the state, reports of it are facts."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from muster.core import Instant, after, seconds_between
from muster.schemas.facts.telemetry import USED_DEVICES_MAX, DeviceUse, JobUseReported
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.holdings import NEVER, KnownJob
from muster.telemetry.core.sums import Series, Sums, together

WHOLE_GPU_MILLI = 1000
MJ_PER_J = 1000.0
_AT_ONCE = Instant(0)
Holders = Mapping[str, Mapping[str, int]]
"""Milli-GPUs of each job, by uuid of the device."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of a node's page."""

    sample: NodeSample
    holders: Holders = field(default_factory=dict)
    """Holders of the node's devices at that time."""


class DeviceActivity(NamedTuple):
    """Activity of a GPU in one reading: the parts of a `DeviceSample` that are used later, in 1/30 of its memory."""

    utilisation_pct: float
    sm_active_pct: float | None
    tensor_active_pct: float | None
    memory_used_mib: int
    memory_total_mib: int
    power_w: float


_ACTIVITY = attrgetter(*DeviceActivity._fields)


@dataclass(slots=True)
class DeviceMeter:
    """One GPU, as far as one job has it. part: of it, up to 1. read_at, energy_mj, newest: of the newest reading.

    idle_since: of the first of the readings in which it did nothing, NEVER if it did something in the newest one.
    """

    node: str
    index: int
    uuid: str
    model: str = ""
    part: float = 1.0
    sums: Sums = field(default_factory=Sums)
    read_at: Instant = NEVER
    energy_mj: int | None = None
    idle_since: Instant = NEVER
    newest: DeviceActivity | None = None

    def report(self) -> DeviceUse:
        """Return the use in the form of the wire."""
        return DeviceUse(node=self.node, index=self.index, uuid=self.uuid, use=self.sums.use())


@dataclass(slots=True)
class JobMeter:
    """One job. devices: by uuid. before: what was reported of devices that are not known one by one.

    gpus_before: how many those were. since, until: of the first and the newest reading. job: as the log had it when it
    was met.
    """

    series: Series
    since: Instant
    until: Instant
    job: KnownJob | None = None
    devices: dict[str, DeviceMeter] = field(default_factory=dict)
    before: Sums = field(default_factory=Sums)
    gpus_before: int = 0
    is_over: bool = False

    @property
    def gpus(self) -> int:
        """Different devices that it was measured on, as far as that is known."""
        return max(self.gpus_before, len(self.devices))

    @property
    def trace(self) -> str:
        """Traceparent of the job, "" if it is not known."""
        return "" if self.job is None else self.job.job.trace

    def total(self) -> Sums:
        """Return the sums over all its devices."""
        total = together(device.sums for device in self.devices.values())
        total.add(self.before)
        return total

    def least_busy(self, most: int) -> tuple[DeviceUse, ...]:
        """Return the least active devices, at most `most`."""
        read = (device for device in self.devices.values() if device.sums.measured_s)
        chosen = heapq.nsmallest(
            most, read, key=lambda one: (one.sums.busy_s / one.sums.measured_s, one.node, one.index)
        )
        return tuple(device.report() for device in chosen)


class JobMeters:
    """Meters of all live jobs of a cluster. last_report: of a job, where its sums continue; known: looks up the job.

    placed_at: when the job got its devices. jobs: read-only.

    Reports are due `report_s` after the last one, and once the job has ended.
    """

    def __init__(
        self,
        config: TelemetryConfig,
        *,
        last_report: Callable[[str], JobUseReported | None],
        known: Callable[[str], KnownJob | None],
        placed_at: Callable[[str], Instant],
    ) -> None:
        self.jobs: dict[str, JobMeter] = {}
        self._config = config
        self._last_report, self._known, self._placed_at = last_report, known, placed_at
        self._due: dict[str, None] = {}
        self._next: list[tuple[Instant, str]] = []

    def reset(self) -> None:
        """Discard what was measured and not reported, at a change of the leader."""
        self.jobs.clear()
        self._due.clear()
        self._next.clear()

    def measure(self, reading: Reading) -> None:
        """Add one reading of a node. A stale page measures nothing."""
        sample, holders = reading.sample, reading.holders
        if sample.exporter is not ExporterState.OK:
            return
        at = Instant(sample.at)
        for device in sample.devices:
            for job_id in device.job_ids:
                milli = holders.get(device.uuid, {}).get(job_id, WHOLE_GPU_MILLI / len(device.job_ids))
                job = self.jobs.get(job_id) or self._begin(job_id, at)
                meter = job.devices.get(device.uuid)
                if meter is None:
                    meter = job.devices[device.uuid] = DeviceMeter(sample.node, device.index, device.uuid)
                meter.model, meter.part = sample.gpu_model, min(1.0, milli / WHOLE_GPU_MILLI)
                self._measure(job, meter, device, at, placed_at=self._placed_at(job_id))
                job.until = at

    def due(self, now: Instant) -> Iterator[tuple[str, JobUseReported]]:
        """Yield the reports that are due and not yet acknowledged."""
        while self._next and self._next[0][0] <= now:
            self._due[heapq.heappop(self._next)[1]] = None
        for job_id in tuple(self._due):
            job = self.jobs.get(job_id)
            if job is None:
                del self._due[job_id]
            else:
                yield job_id, self.report(job)

    def report(self, job: JobMeter) -> JobUseReported:
        """Return the report of the job as of the newest reading."""
        return JobUseReported(
            use=job.total().use(),
            since=job.since,
            until=job.until,
            gpus=job.gpus,
            devices=job.least_busy(USED_DEVICES_MAX),
            is_last=job.is_over,
            **_whose(job.job),
        )

    def acknowledge(self, job_id: str, report: JobUseReported, at: Instant) -> None:
        """Record that the report was stored at that time."""
        job = self.jobs.get(job_id)
        if job is None:
            return
        if report.is_last:
            del self.jobs[job_id]
            self._due.pop(job_id, None)
        elif job_id in self._due and not job.is_over:
            del self._due[job_id]
            heapq.heappush(self._next, (after(at, self._config.report_s), job_id))

    def begin(self, job_id: str) -> None:
        """Continue a job that returns before its last report: its measurements are kept."""
        job = self.jobs.get(job_id)
        if job is not None:
            job.is_over = False

    def ended(self, job_id: str) -> None:
        """Record the end of the job: its measurements become its last report."""
        job = self.jobs.get(job_id)
        if job is not None:
            job.is_over = True
            self._due[job_id] = None

    def next_due(self) -> Instant | None:
        """When `due` could answer differently by time alone; a past moment while something is due."""
        if self._due:
            return _AT_ONCE
        while self._next and self._next[0][1] not in self.jobs:
            heapq.heappop(self._next)
        return self._next[0][0] if self._next else None

    def _begin(self, job_id: str, at: Instant) -> JobMeter:
        job = JobMeter(Series(at), since=at, until=at, job=self._known(job_id))
        last = self._last_report(job_id)
        if last is not None:
            job.since = Instant(last.since)
            if len(last.devices) == last.gpus:
                job.devices = {
                    one.uuid: DeviceMeter(one.node, one.index, one.uuid, sums=Sums.restored(one.use))
                    for one in last.devices
                }
            else:
                job.before, job.gpus_before = Sums.restored(last.use), last.gpus
        self.jobs[job_id] = job
        heapq.heappush(self._next, (after(at, self._config.report_s), job_id))
        return job

    def _measure(
        self, job: JobMeter, meter: DeviceMeter, device: DeviceSample, at: Instant, *, placed_at: Instant
    ) -> None:
        config = self._config
        gap_s = seconds_between(meter.read_at, at)
        is_next = bool(meter.read_at) and meter.read_at >= placed_at and 0 <= gap_s <= config.gap_s_max
        seconds = gap_s if is_next else min(config.interval_s, max(0.0, seconds_between(placed_at, at)))
        before, energy_mj = meter.energy_mj, device.energy_mj
        if is_next and before is not None and energy_mj is not None and energy_mj >= before:
            energy_j = meter.part * (energy_mj - before) / MJ_PER_J
        else:  # the counter began anew, or there is none
            energy_j = meter.part * seconds * device.power_w
        is_idle = does_nothing(device, config.idle_below_pct)
        if not is_idle:
            meter.idle_since = NEVER
        elif not meter.idle_since or meter.idle_since < placed_at:
            meter.idle_since = at
        meter.sums.measure(device, meter.part * seconds, energy_j=energy_j, is_idle=is_idle)
        job.series.measure(device, meter.part * seconds, energy_j=energy_j, at=at)
        meter.read_at, meter.energy_mj = at, energy_mj
        meter.newest = DeviceActivity._make(_ACTIVITY(device))


def _whose(known: KnownJob | None) -> dict[str, str]:
    if known is None:
        return {}
    spec = known.job.spec
    return {"team": spec.team, "queue": known.queue, "user": known.job.principal, "name": spec.name}


def does_nothing(device: DeviceSample, below_pct: float) -> bool:
    """Return whether no activity is shown; False for a GPU whose utilization is unknown."""
    if "utilisation_pct" in device.lacking or device.utilisation_pct > below_pct:
        return False
    return device.sm_active_pct is None or device.sm_active_pct <= below_pct
