"""Answers to queries on the use of GPUs, from the measurements of this term and from the log. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from muster.core import Core, Instant, seconds_between
from muster.core.instant import NS_PER_S
from muster.schemas.base import Wire
from muster.schemas.facts.telemetry import DeviceUse, JobUseReported, Use
from muster.schemas.telemetry import ExporterState
from muster.schemas.usage import (
    DEVICES_MAX,
    AskEnergy,
    AskIdle,
    AskJobUse,
    AskTop,
    Energy,
    EnergyRow,
    ExporterCount,
    Idle,
    IdleGpu,
    IdleTeam,
    JobUse,
    Top,
    TopRow,
)
from muster.schemas.usage_words import EnergyBy, TopBy, TopOrder
from muster.telemetry.core.core import S_PER_DAY, Account, TelemetryCore, added, day_of
from muster.telemetry.core.meters import DeviceActivity, DeviceMeter
from muster.telemetry.core.sums import J_PER_KWH, S_PER_HOUR, share_pct


@dataclass(frozen=True, slots=True)
class Held:
    """One GPU of one job, and its last activity. idle_s: how long it has been idle; is_idle: longer than the limit."""

    job_id: str
    name: str
    team: str
    queue: str
    user: str
    device: DeviceMeter
    activity: DeviceActivity
    idle_s: float
    is_idle: bool


def held_now(core: TelemetryCore, now: Instant, *, team: str = "") -> Iterator[Held]:
    """Yield every GPU that a live job holds and that was read recently. team: only of this team. Cost: linear."""
    gap_s_max, idle_after_s = core.config.gap_s_max, core.config.idle_after_s
    for job_id, meter in core.meters.jobs.items():
        known = core.holdings.jobs.get(job_id)
        if known is None or job_id not in core.holdings.holding:
            continue
        spec, placed_at = known.job.spec, core.holdings.placed_at(job_id)
        if team and spec.team != team:
            continue
        for one in meter.devices.values():
            if one.newest is None or seconds_between(one.read_at, now) > gap_s_max or one.read_at < placed_at:
                continue
            idle_s = max(0.0, seconds_between(one.idle_since, now)) if one.idle_since else 0.0
            yield Held(
                job_id,
                spec.name,
                spec.team,
                known.queue,
                known.job.principal,
                one,
                one.newest,
                idle_s,
                bool(one.idle_since) and idle_s >= idle_after_s,
            )


MEASURED_S_MIN = 300.0
"""GPU-seconds under which nothing is advised."""
IDLE_PCT = 25.0
BUSY_PCT_LOW, BUSY_PCT_HIGH = 30.0, 60.0
SM_PCT_LOW, SM_PCT_HIGH = 30.0, 50.0
TENSOR_PCT_LOW = 5.0
MEMORY_PCT_LOW = 25.0
APART_PCT = 40.0


def advise(use: Use, devices: Sequence[DeviceUse]) -> tuple[str, ...]:
    """Return advice to the owner; a single line if there is no problem; nothing for a job with few measurements."""
    if use.measured_s < MEASURED_S_MIN:
        return ()
    found = tuple(_lines(use, devices))
    return found or ("its GPUs are used well",)


def _lines(use: Use, devices: Sequence[DeviceUse]) -> Iterator[str]:
    idle, busy = share_pct(use.idle_s, use.measured_s) or 0.0, share_pct(use.busy_s, use.measured_s) or 0.0
    sm = share_pct(use.sm_active_s, use.sm_measured_s)
    if idle >= IDLE_PCT:
        yield (
            f"GPUs did nothing for {idle:.0f} % of the time ({use.idle_s / S_PER_HOUR:.1f} GPU-hours): ask for fewer, "
            "or end the job when its work is done"
        )
    elif busy < BUSY_PCT_LOW:
        yield f"something ran on the GPUs {busy:.0f} % of the time: see whether they wait for data or for the CPUs"
    if sm is not None and busy >= BUSY_PCT_HIGH and sm < SM_PCT_LOW:
        yield (
            f"busy {busy:.0f} % of the time, but {sm:.0f} % of the SMs were active: kernels are small, or wait for "
            "each other or the network; try larger batches, fewer GPUs, or communication that overlaps"
        )
    tensor = share_pct(use.tensor_active_s, use.tensor_measured_s)
    if tensor is not None and sm is not None and sm >= SM_PCT_HIGH and tensor < TENSOR_PCT_LOW:
        yield f"tensor cores were active {tensor:.0f} % of the time: see whether the work could run in lower precision"
    yield from _apart(devices)
    memory = share_pct(use.memory_mib_max, use.memory_total_mib)
    if memory is not None and 0 < memory < MEMORY_PCT_LOW:
        yield (
            f"at most {use.memory_mib_max:,} of {use.memory_total_mib:,} MiB of a GPU's memory were used: larger "
            "batches would fit, or a part of a GPU would do"
        )


def _apart(devices: Sequence[DeviceUse]) -> Iterator[str]:
    """Yield a line if some of the GPUs are much less active than others."""
    shares = [(share_pct(one.use.busy_s, one.use.measured_s) or 0.0, one) for one in devices if one.use.measured_s]
    if len(shares) < 2:
        return
    (least, slow), (most, _) = min(shares, key=lambda pair: pair[0]), max(shares, key=lambda pair: pair[0])
    if most - least >= APART_PCT:
        yield f"the GPUs differ: {slow.node}/{slow.index} was busy {least:.0f} % of the time, another one {most:.0f} %"


def answer_energy(core: Core, ask: Wire, now: Instant) -> Energy:
    """Answer `energy`: the reported use, and the use of live jobs since then."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskEnergy)
    first = day_of(now) - ask.days + 1
    rows: defaultdict[str, Account] = defaultdict(Account)
    for (team, queue), account in core.state.accounts.since(first).items():
        if ask.team in ("", team):
            rows[team if ask.by is EnergyBy.TEAM else queue].add(account)
    for job_id, meter in core.meters.jobs.items():
        if meter.job is None or ask.team not in ("", meter.job.job.spec.team):
            continue
        last = core.state.reports.get(job_id)
        key = meter.job.job.spec.team if ask.by is EnergyBy.TEAM else meter.job.queue
        rows[key].add(added(meter.total().use(), None if last is None else last.reported.use))
    found = [_energy_row(key, account) for key, account in rows.items()]
    found.sort(key=lambda row: (-row.energy_kwh, row.key))
    return Energy(
        at=now,
        since=max(0, first * S_PER_DAY * NS_PER_S),
        rows=tuple(found[: ask.limit]),
        total=len(found),
        energy_kwh=round(sum(account.energy_j for account in rows.values()) / J_PER_KWH, 4),
    )


def _energy_row(key: str, account: Account) -> EnergyRow:
    return EnergyRow(
        key=key,
        energy_kwh=round(account.energy_j / J_PER_KWH, 4),
        gpu_hours=round(account.measured_s / S_PER_HOUR, 4),
        idle_gpu_hours=round(account.idle_s / S_PER_HOUR, 4),
    )


NODES_TOLD_MAX = 20


def answer_job_use(core: Core, ask: Wire, now: Instant) -> JobUse:  # noqa: ARG001 - the same shape for every answer
    """Answer `job-use`: the current measurement, else the last report."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskJobUse)
    meter, last = core.meters.jobs.get(ask.job_id), core.state.reports.get(ask.job_id)
    if meter is not None:
        report, devices = core.meters.report(meter), meter.least_busy(DEVICES_MAX)
        over_time: dict[str, object] = {"column_s": meter.series.width_s, "columns": tuple(meter.series.columns())}
        return _job_use(ask.job_id, report, devices, is_over=meter.is_over).model_copy(update=over_time)
    if last is None:
        return JobUse(job_id=ask.job_id, is_known=False)
    return _job_use(ask.job_id, last.reported, last.reported.devices, is_over=bool(last.ended_at))


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
        did, part = held.activity, held.device.part
        self.jobs.add(held.job_id)
        self.gpus.add(held.device.uuid)
        if held.is_idle:
            self.idle.add(held.device.uuid)
        self.parts += part
        self.busy += part * did.utilisation_pct
        if did.sm_active_pct is not None:
            self.sm += part * did.sm_active_pct
            self.sm_parts += part
        if did.tensor_active_pct is not None:
            self.tensor += part * did.tensor_active_pct
            self.tensor_parts += part
        self.memory_mib += part * did.memory_used_mib
        self.memory_total_mib += part * did.memory_total_mib
        self.power_w += part * did.power_w

    def answer(self, key: str, by: TopBy) -> TopRow:
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
    TopBy.MODEL: lambda held: held.device.model,
}
_ORDERS: dict[TopOrder, Callable[[TopRow], float]] = {
    TopOrder.GPUS: lambda row: -row.gpus,
    TopOrder.IDLE: lambda row: -row.idle,
    TopOrder.POWER: lambda row: -row.power_w,
    TopOrder.BUSY: lambda row: row.busy_pct,
    TopOrder.SM: lambda row: row.busy_pct if row.sm_active_pct is None else row.sm_active_pct,
}


def answer_top(core: Core, ask: Wire, now: Instant) -> Top:
    """Answer `top`: the last reading of every node."""
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
    found = [row.answer(name, ask.by) for name, row in rows.items()]
    order = _ORDERS[ask.order]
    found.sort(key=lambda row: (order(row), -row.gpus, row.key))
    looks = core.fleet.nodes.values()
    return Top(
        at=now,
        rows=tuple(found[: ask.limit]),
        total=len(found),
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
    """Answer `idle`: held GPUs that have been idle for too long."""
    assert isinstance(core, TelemetryCore)
    assert isinstance(ask, AskIdle)
    held_of: dict[str, set[str]] = {}
    idle: list[Held] = []
    for held in held_now(core, now, team=ask.team):
        held_of.setdefault(held.team, set()).add(held.device.uuid)
        if held.is_idle:
            idle.append(held)
    idle.sort(key=lambda held: (-held.idle_s, held.device.node, held.device.index))
    teams = []
    for team, gpus in held_of.items():
        of_team = [held for held in idle if held.team == team]
        teams.append(
            IdleTeam(
                team=team,
                held=len(gpus),
                idle=len({held.device.uuid for held in of_team}),
                jobs=len({held.job_id for held in of_team}),
                idle_s=round(sum(held.device.part * held.idle_s for held in of_team), 1),
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
        node=held.device.node,
        index=held.device.index,
        uuid=held.device.uuid,
        model=held.device.model,
        job_id=held.job_id,
        name=held.name,
        team=held.team,
        queue=held.queue,
        user=held.user,
        since=held.device.idle_since,
        idle_s=round(held.idle_s, 1),
    )
