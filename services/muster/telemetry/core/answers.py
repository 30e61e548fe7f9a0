"""Answers to questions on the use of GPUs, from what was measured in this term and from what the log says. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from muster.core import Core, Instant
from muster.schemas.base import Wire
from muster.schemas.facts.telemetry import DeviceUse, JobUseReported
from muster.schemas.telemetry import ExporterState
from muster.schemas.usage import (
    DEVICES_MAX,
    AskIdle,
    AskJobUse,
    AskTop,
    ExporterCount,
    Idle,
    IdleGpu,
    IdleTeam,
    JobUse,
    Top,
    TopRow,
)
from muster.schemas.usage_words import TopBy, TopOrder
from muster.telemetry.core.advice import advise
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.current import Held, held_now
from muster.telemetry.core.sums import J_PER_KWH, S_PER_HOUR, share_pct

NODES_TOLD_MAX = 20


def answer_job_use(core: Core, ask: Wire, now: Instant) -> JobUse:  # noqa: ARG001 - the same shape for every answer
    """To `job-use`: what is measured just now, else what was reported last."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskJobUse)
    meter, told = core.meters.jobs.get(ask.job_id), core.state.told.get(ask.job_id)
    if meter is not None:
        report, devices = core.meters.report(meter), meter.least_busy(DEVICES_MAX)
        over_time: dict[str, object] = {"column_s": meter.series.width_s, "columns": tuple(meter.series.columns())}
        return _job_use(ask.job_id, report, devices, is_over=meter.is_over).model_copy(update=over_time)
    if told is None:
        return JobUse(job_id=ask.job_id, is_known=False)
    return _job_use(ask.job_id, told.reported, told.reported.devices, is_over=bool(told.ended_at))


def _job_use(job_id: str, report: JobUseReported, devices: tuple[DeviceUse, ...], *, is_over: bool) -> JobUse:
    use = report.use
    return JobUse(
        job_id=job_id,
        is_over=is_over,
        team=report.team,
        queue=report.queue,
        user=report.user,
        name=report.name,
        since=report.since,
        until=report.until,
        gpus=report.gpus,
        use=use,
        energy_kwh=round(use.energy_j / J_PER_KWH, 4),
        gpu_hours=round(use.measured_s / S_PER_HOUR, 4),
        idle_gpu_hours=round(use.idle_s / S_PER_HOUR, 4),
        busy_pct=share_pct(use.busy_s, use.measured_s) or 0.0,
        sm_active_pct=share_pct(use.sm_active_s, use.sm_measured_s),
        tensor_active_pct=share_pct(use.tensor_active_s, use.tensor_measured_s),
        dram_active_pct=share_pct(use.dram_active_s, use.dram_measured_s),
        devices=devices,
        advice=advise(use, devices),
    )


@dataclass(slots=True)
class _Row:
    """Sums over the GPUs of one row of `top`."""

    first: Held
    jobs: set[str] = field(default_factory=set)
    gpus: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)
    parts: float = 0.0
    busy: float = 0.0
    sm: float = 0.0
    sm_parts: float = 0.0
    tensor: float = 0.0
    tensor_parts: float = 0.0
    memory_mib: float = 0.0
    memory_total_mib: float = 0.0
    power_w: float = 0.0

    def add(self, held: Held) -> None:
        device, part = held.device, held.part
        self.jobs.add(held.job_id)
        self.gpus.add(device.uuid)
        if held.is_idle:
            self.idle.add(device.uuid)
        self.parts += part
        self.busy += part * device.utilisation_pct
        if device.sm_active_pct is not None:
            self.sm += part * device.sm_active_pct
            self.sm_parts += part
        if device.tensor_active_pct is not None:
            self.tensor += part * device.tensor_active_pct
            self.tensor_parts += part
        self.memory_mib += part * device.memory_used_mib
        self.memory_total_mib += part * device.memory_total_mib
        self.power_w += part * device.power_w

    def told(self, key: str, by: TopBy) -> TopRow:
        first = self.first
        whose = {}
        if by is TopBy.JOB:
            whose = {"name": first.name, "team": first.team, "queue": first.queue, "user": first.user}
        return TopRow(
            key=key,
            jobs=len(self.jobs),
            gpus=len(self.gpus),
            idle=len(self.idle),
            busy_pct=round(self.busy / self.parts, 1) if self.parts else 0.0,
            sm_active_pct=round(self.sm / self.sm_parts, 1) if self.sm_parts else None,
            tensor_active_pct=round(self.tensor / self.tensor_parts, 1) if self.tensor_parts else None,
            memory_pct=share_pct(self.memory_mib, self.memory_total_mib) or 0.0,
            power_w=round(self.power_w, 1),
            **whose,
        )


_KEYS: dict[TopBy, Callable[[Held], str]] = {
    TopBy.JOB: lambda held: held.job_id,
    TopBy.TEAM: lambda held: held.team,
    TopBy.QUEUE: lambda held: held.queue,
    TopBy.USER: lambda held: held.user,
    TopBy.MODEL: lambda held: held.model,
}
_ORDERS: dict[TopOrder, Callable[[TopRow], float]] = {
    TopOrder.GPUS: lambda row: -row.gpus,
    TopOrder.IDLE: lambda row: -row.idle,
    TopOrder.POWER: lambda row: -row.power_w,
    TopOrder.BUSY: lambda row: row.busy_pct,
    TopOrder.SM: lambda row: row.busy_pct if row.sm_active_pct is None else row.sm_active_pct,
}


def answer_top(core: Core, ask: Wire, now: Instant) -> Top:
    """To `top`: as every node was read last."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskTop)
    key = _KEYS[ask.by]
    rows: dict[str, _Row] = {}
    held_gpus: set[str] = set()
    idle_gpus: set[str] = set()
    for held in held_now(core, now, team=ask.team):
        name = key(held)
        row = rows.get(name) or rows.setdefault(name, _Row(held))
        row.add(held)
        held_gpus.add(held.device.uuid)
        if held.is_idle:
            idle_gpus.add(held.device.uuid)
    told = [row.told(name, ask.by) for name, row in rows.items()]
    order = _ORDERS[ask.order]
    told.sort(key=lambda row: (order(row), -row.gpus, row.key))
    looks = core.fleet.nodes.values()
    return Top(
        at=now,
        rows=tuple(told[: ask.limit]),
        total=len(told),
        gpus_expected=sum(look.expected for look in looks),
        gpus_seen=sum(look.seen for look in looks),
        held=len(held_gpus),
        idle_held=len(idle_gpus),
        power_w=round(sum(look.power_w for look in looks), 1),
        exporters=tuple(_exporters(core)),
    )


def _exporters(core: TelemetryCore) -> Iterable[ExporterCount]:
    for state in ExporterState:
        nodes = sorted(core.fleet.in_state(state))
        if nodes:
            some = () if state is ExporterState.OK else tuple(nodes[:NODES_TOLD_MAX])
            yield ExporterCount(state=state.value, count=len(nodes), nodes=some)


def answer_idle(core: Core, ask: Wire, now: Instant) -> Idle:
    """To `idle`: held GPUs that have done nothing for too long."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskIdle)
    held_of: dict[str, set[str]] = {}
    idle: list[Held] = []
    for held in held_now(core, now, team=ask.team):
        held_of.setdefault(held.team, set()).add(held.device.uuid)
        if held.is_idle:
            idle.append(held)
    idle.sort(key=lambda held: (-held.idle_s, held.node, held.device.index))
    teams = []
    for team, gpus in held_of.items():
        of_team = [held for held in idle if held.team == team]
        teams.append(
            IdleTeam(
                team=team,
                held=len(gpus),
                idle=len({held.device.uuid for held in of_team}),
                jobs=len({held.job_id for held in of_team}),
                idle_s=round(sum(held.part * held.idle_s for held in of_team), 1),
            )
        )
    teams.sort(key=lambda row: (-row.idle, row.team))
    return Idle(
        at=now,
        after_s=core.config.idle_after_s,
        teams=tuple(teams),
        gpus=tuple(map(_idle_gpu, idle[: ask.limit])),
        total=len(idle),
    )


def _idle_gpu(held: Held) -> IdleGpu:
    return IdleGpu(
        node=held.node,
        index=held.device.index,
        uuid=held.device.uuid,
        model=held.model,
        job_id=held.job_id,
        name=held.name,
        team=held.team,
        queue=held.queue,
        user=held.user,
        since=held.idle_since,
        idle_s=round(held.idle_s, 1),
    )
