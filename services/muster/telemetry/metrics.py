"""Metrics of a leading telemetry service: how it reads exporters, and what GPUs do for teams, queues and models.

Labels are bounded: states, models, teams and queues (the rest together as `other`), and the few jobs with most GPUs.
Nodes, devices and pods are no labels: `muster top`, `muster stats` and the dashboard know them. The label of a job is
`job_id`: Prometheus calls what it scrapes `job`, and would rename another label of this name.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge, Histogram

from muster.bus.gauges import BoundedLabels, LeaderGauges
from muster.core import Instant, seconds_between
from muster.schemas.telemetry import ExporterState
from muster.telemetry.core.answers import Held, held_now
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.limits import JOBS_SHOWN, MODELS_SHOWN, QUEUES_SHOWN, TEAMS_SHOWN

_EXPORTERS = Gauge("muster_telemetry_exporters", "Nodes by how their exporter is.", ("state",))
_EXPECTED = Gauge("muster_telemetry_gpus_expected", "GPUs of the nodes that are asked, by the log.", ("model",))
_SEEN = Gauge("muster_telemetry_gpus_seen", "GPUs that exporters show.", ("model",))
_MISSING = Gauge("muster_telemetry_gpus_missing", "GPUs that a page which could be read does not show.", ("model",))
_OLDEST = Gauge("muster_telemetry_oldest_reading_seconds", "Age of the oldest newest reading of a node.", ("scope",))
"""Only nodes whose exporter has answered: the others are asked seldom (`muster.telemetry.core.exporters`)."""
_HELD = Gauge("muster_gpu_job_held", "GPUs that jobs hold, as far as they are read.", ("team", "queue", "model"))
_BUSY = Gauge(
    "muster_gpu_job_busy_ratio", "Mean utilisation of held GPUs: that something ran.", ("team", "queue", "model")
)
_SM = Gauge(
    "muster_gpu_job_sm_active_ratio", "Mean SM activity of held GPUs: that it was work.", ("team", "queue", "model")
)
_TENSOR = Gauge(
    "muster_gpu_job_tensor_active_ratio", "Mean activity of tensor cores of held GPUs.", ("team", "queue", "model")
)
_POWER = Gauge("muster_gpu_job_power_watts", "What held GPUs draw together.", ("team", "queue", "model"))
_IDLE = Gauge(
    "muster_gpu_job_idle", "Held GPUs that have done nothing for telemetry.idle_after_s.", ("team", "queue", "model")
)
_HELD_S = Counter("muster_gpu_job_held_seconds", "GPU-seconds that jobs held, as far as they were read.", ("team",))
_IDLE_S = Counter("muster_gpu_job_idle_seconds", "GPU-seconds of held GPUs that did nothing.", ("team",))
_ENERGY = Counter("muster_gpu_job_energy_joules", "What held GPUs drew, from their power.", ("team", "model"))
_JOB_GPUS = Gauge("muster_job_gpus", "GPUs of the jobs with most of them.", ("job_id", "team", "queue"))
_JOB_BUSY = Gauge("muster_job_busy_ratio", "Mean utilisation of these jobs.", ("job_id", "team", "queue"))
_JOB_SM = Gauge("muster_job_sm_active_ratio", "Mean SM activity of these jobs.", ("job_id", "team", "queue"))
_SCRAPES = Counter("muster_telemetry_scrapes", "Pages that were asked for, by how that went.", ("state",))
_DURATION = Histogram(
    "muster_telemetry_scrape_seconds",
    "From the question for a page to the end of reading it.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_OVERDUE = Counter("muster_telemetry_overdue", "Turns of nodes that were left out: the page before had not come yet.")
_DROPPED = Counter("muster_telemetry_dropped", "Readings that were not published: the broker did not answer.")

STEP_S_MAX = 60.0
"""Maximum time between two updates; a longer gap is not added, since it was not measured."""


@dataclass(slots=True)
class _Group:
    """Sums over held GPUs."""

    gpus: float = 0.0
    idle: int = 0
    busy: float = 0.0
    sm: float = 0.0
    sm_gpus: float = 0.0
    tensor: float = 0.0
    tensor_gpus: float = 0.0
    power_w: float = 0.0

    def add(self, held: Held) -> None:
        """One more."""
        part, did = held.device.part, held.activity
        self.gpus += part
        self.idle += held.is_idle
        self.busy += part * did.utilisation_pct / 100
        self.power_w += part * did.power_w
        if did.sm_active_pct is not None:
            self.sm += part * did.sm_active_pct / 100
            self.sm_gpus += part
        if did.tensor_active_pct is not None:
            self.tensor += part * did.tensor_active_pct / 100
            self.tensor_gpus += part


@dataclass(slots=True)
class TelemetryMetrics:
    """The samples of one term."""

    overdue: Counter = _OVERDUE
    dropped: Counter = _DROPPED
    _gauges: LeaderGauges = field(default_factory=LeaderGauges)
    _teams: BoundedLabels = field(default_factory=lambda: BoundedLabels(TEAMS_SHOWN))
    _queues: BoundedLabels = field(default_factory=lambda: BoundedLabels(QUEUES_SHOWN))
    _models: BoundedLabels = field(default_factory=lambda: BoundedLabels(MODELS_SHOWN))
    _shown_at: Instant | None = None

    def scraped(self, state: ExporterState, seconds: float) -> None:
        """Count a scrape of a page."""
        _SCRAPES.labels(state.value).inc()
        _DURATION.observe(seconds)

    def show(self, core: TelemetryCore, now: Instant) -> None:
        """Everything anew. Work grows with the held GPUs; once per interval."""
        self._gauges.hide()
        self._show_exporters(core, now)
        groups: defaultdict[tuple[str, str, str], _Group] = defaultdict(_Group)
        jobs: defaultdict[str, _Group] = defaultdict(_Group)
        owners: dict[str, tuple[str, str]] = {}
        for held in held_now(core, now):
            team, queue = self._teams.of(held.team), self._queues.of(held.queue)
            groups[team, queue, self._models.of(held.device.model)].add(held)
            jobs[held.job_id].add(held)
            owners[held.job_id] = team, queue
        self._add_up(groups, now)
        show = self._gauges.show
        for labels, group in groups.items():
            show(_HELD, group.gpus, *labels)
            show(_BUSY, group.busy / max(group.gpus, 1e-9), *labels)
            show(_POWER, group.power_w, *labels)
            show(_IDLE, group.idle, *labels)
            for gauge, part, of in ((_SM, group.sm, group.sm_gpus), (_TENSOR, group.tensor, group.tensor_gpus)):
                if of:
                    show(gauge, part / of, *labels)
        for job_id in sorted(jobs, key=lambda one: (-jobs[one].gpus, one))[:JOBS_SHOWN]:
            group = jobs[job_id]
            show(_JOB_GPUS, group.gpus, job_id, *owners[job_id])
            show(_JOB_BUSY, group.busy / max(group.gpus, 1e-9), job_id, *owners[job_id])
            if group.sm_gpus:
                show(_JOB_SM, group.sm / group.sm_gpus, job_id, *owners[job_id])

    def hide(self) -> None:
        """Remove the samples at the end of the term."""
        self._gauges.hide()
        self._shown_at = None

    def _add_up(self, groups: Mapping[tuple[str, str, str], _Group], now: Instant) -> None:
        """Add the current values for the time since the last update."""
        before, self._shown_at = self._shown_at, now
        elapsed_s = max(0.0, seconds_between(before, now)) if before is not None else 0.0
        if elapsed_s > STEP_S_MAX:
            elapsed_s = 0.0
        for (team, _queue, model), group in groups.items():
            _HELD_S.labels(team).inc(group.gpus * elapsed_s)
            _IDLE_S.labels(team).inc(group.idle * elapsed_s)
            _ENERGY.labels(team, model).inc(group.power_w * elapsed_s)

    def _show_exporters(self, core: TelemetryCore, now: Instant) -> None:
        show, nodes = self._gauges.show, core.fleet.nodes.values()
        for state in ExporterState:
            show(_EXPORTERS, sum(look.state is state for look in nodes), state.value)
        by_model: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for look in nodes:
            sums = by_model[self._models.of(look.model)]
            sums[0] += look.expected
            sums[1] += look.seen
            sums[2] += look.missing
        for model, (expected, seen, missing) in by_model.items():
            show(_EXPECTED, expected, model)
            show(_SEEN, seen, model)
            show(_MISSING, missing, model)
        oldest = min((look.at for look in nodes if look.was_there), default=now)
        show(_OLDEST, max(0.0, seconds_between(oldest, now)), "cluster")
