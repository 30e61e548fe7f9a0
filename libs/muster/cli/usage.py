"""Print the GPU usage of jobs and teams, with hints."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.cli import output
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.cli.text import duration
from muster.core.instant import NS_PER_S
from muster.schemas.facts.telemetry import DeviceUse
from muster.schemas.usage import Energy, EnergyRow, Idle, IdleGpu, JobUse, Top, TopRow, UseColumn
from muster.schemas.usage_words import EnergyBy, TopBy, TopOrder

DEVICES_SHOWN = 16
BAR_CHARS = 30
SPARKS = "▁▂▃▄▅▆▇█"
S_PER_HOUR = 3600.0
GPU_COLUMNS = ("NODE", "GPU", "BUSY", "SM", "TENSOR", "MEMORY", "W_MAX", "HOURS", "IDLE_H")
TOP_NUMBERS = ("JOBS", "GPUS", "IDLE", "BUSY", "SM", "TENSOR", "MEMORY", "KW")
Of = Callable[[UseColumn], float | None]
ENERGY_NUMBERS = ("KWH", "SHARE", "GPU_H", "IDLE_H")
IDLE_COLUMNS = ("TEAM", "NODE", "GPU", "IDLE_FOR", "JOBID", "NAME", "USER")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of `top`."""

    by: TopBy
    order: TopOrder
    team: str
    limit: int
    cluster: str


def stats(state_dir: Path, job: str, form: Output) -> None:
    """Show the usage of one job. Raises CliError."""
    answer = call(state_dir, lambda muster: muster.stats(job))
    if output.emitted(answer, form):
        return
    for line in job_lines(answer):
        print_line(line)
    if answer.devices:
        output.table(GPU_COLUMNS, map(device_row, answer.devices[:DEVICES_SHOWN]), right=GPU_COLUMNS[1:])
        if len(answer.devices) > DEVICES_SHOWN or answer.gpus > len(answer.devices):
            print_line(f"the {min(DEVICES_SHOWN, len(answer.devices))} least busy of {answer.gpus}; -o json has more")
    for line in answer.advice:
        print_line(f"> {line}")


def top(state_dir: Path, form: Output, *, wanted: Wanted) -> None:
    """List current GPU usage. Raises CliError."""
    answer = call(
        state_dir,
        lambda muster: muster.top(
            by=wanted.by, order=wanted.order, team=wanted.team, limit=wanted.limit, cluster=wanted.cluster
        ),
    )
    if output.emitted(answer, form):
        return
    for line in fleet_lines(answer):
        print_line(line)
    of_jobs = wanted.by is TopBy.JOB
    headings = ("JOBID", "NAME", "TEAM", *TOP_NUMBERS[1:]) if of_jobs else (wanted.by.value.upper(), *TOP_NUMBERS)
    output.table(headings, (top_row(row, of_jobs=of_jobs) for row in answer.rows), right=TOP_NUMBERS)
    if answer.total > len(answer.rows):
        print_line(f"{len(answer.rows)} of {answer.total}")


def idle(state_dir: Path, form: Output, *, team: str, limit: int, cluster: str) -> None:
    """List allocated but idle GPUs. Raises CliError."""
    answer = call(state_dir, lambda muster: muster.idle(team=team, limit=limit, cluster=cluster))
    if output.emitted(answer, form):
        return
    for line in idle_lines(answer):
        print_line(line)
    if answer.gpus:
        output.table(IDLE_COLUMNS, map(idle_row, answer.gpus), right=("GPU", "IDLE_FOR"))


def energy(state_dir: Path, form: Output, *, by: EnergyBy, days: int, wanted: Wanted) -> None:
    """List the usage of teams or queues over days. Raises CliError."""
    answer = call(
        state_dir,
        lambda muster: muster.energy(by=by, days=days, team=wanted.team, limit=wanted.limit, cluster=wanted.cluster),
    )
    if output.emitted(answer, form):
        return
    print_line(f"{answer.energy_kwh:,.2f} kWh in {days} days, including today (UTC)")
    rows = (energy_row(row, answer) for row in answer.rows)
    output.table((by.value.upper(), *ENERGY_NUMBERS), rows, right=ENERGY_NUMBERS)
    if answer.total > len(answer.rows):
        print_line(f"{len(answer.rows)} of {answer.total}")


def job_lines(answer: JobUse) -> Iterator[str]:
    """Return the usage of a job as lines, with bars and a history."""
    if not answer.is_known:
        yield f"{answer.job_id}: nothing was measured of it; readings come every few seconds while a job holds GPUs"
        return
    use = answer.use
    span = duration((answer.until - answer.since) / NS_PER_S)
    ended = "over" if answer.is_over else "runs"
    yield f"{answer.job_id}  {answer.name}  team {answer.team}, queue {answer.queue}, user {answer.user}  {ended}"
    yield (
        f"{answer.gpus} GPUs over {span}: {answer.gpu_hours:,.2f} GPU-hours, {answer.idle_gpu_hours:,.2f} of them "
        f"idle, {answer.energy_kwh:,.2f} kWh"
    )
    yield _bar("busy (something ran)", answer.busy_pct, answer.columns, lambda column: column.busy_pct)
    yield _bar("SMs active", answer.sm_active_pct, answer.columns, lambda column: column.sm_active_pct)
    yield _bar("tensor cores active", answer.tensor_active_pct, answer.columns, lambda column: column.tensor_active_pct)
    memory = 100.0 * use.memory_mib_max / use.memory_total_mib if use.memory_total_mib else None
    yield _bar("memory, most of a GPU", memory, (), lambda _: None)
    yield f"{'power, most of a GPU':<24}{use.power_w_max:6.0f} W, at most {use.temperature_c_max:.0f} C"


def fleet_lines(answer: Top) -> Iterator[str]:
    """Return the summary in two lines."""
    yield (
        f"{answer.gpus_seen:,} of {answer.gpus_expected:,} GPUs seen, {answer.held:,} held, {answer.idle_held:,} of "
        f"them idle, {answer.power_w / 1000:,.1f} kW"
    )
    sick = [one for one in answer.exporters if one.state != "ok"]
    for one in sick:
        more = f" and {one.count - len(one.nodes)} more" if one.count > len(one.nodes) else ""
        yield f"exporters {one.state}: {', '.join(one.nodes)}{more}"


def idle_lines(answer: Idle) -> Iterator[str]:
    """Return a line per team."""
    if not answer.total:
        yield f"no held GPU has done nothing for {duration(answer.after_s)}"
        return
    for team in answer.teams:
        if team.idle:
            yield (
                f"{team.team}: {team.idle} of {team.held} held GPUs idle in {team.jobs} jobs, "
                f"{team.idle_s / S_PER_HOUR:,.1f} GPU-hours so far"
            )


def device_row(one: DeviceUse) -> Sequence[str]:
    """Return the row of a GPU of a job."""
    use = one.use
    return (
        one.node,
        str(one.index),
        _pct(_share(use.busy_s, use.measured_s)),
        _pct(_share(use.sm_active_s, use.sm_measured_s)),
        _pct(_share(use.tensor_active_s, use.tensor_measured_s)),
        _pct(_share(use.memory_mib_max, use.memory_total_mib)),
        f"{use.power_w_max:.0f}",
        f"{use.measured_s / S_PER_HOUR:.2f}",
        f"{use.idle_s / S_PER_HOUR:.2f}",
    )


def top_row(row: TopRow, *, of_jobs: bool) -> Sequence[str]:
    """Return a row of `top`."""
    numbers = (
        str(row.gpus),
        str(row.idle),
        _pct(row.busy_pct),
        _pct(row.sm_active_pct),
        _pct(row.tensor_active_pct),
        _pct(row.memory_pct),
        f"{row.power_w / 1000:.1f}",
    )
    return (row.key, row.name, row.team, *numbers) if of_jobs else (row.key, str(row.jobs), *numbers)


def energy_row(row: EnergyRow, answer: Energy) -> Sequence[str]:
    """Return the row of a team or queue."""
    share = _pct(_share(row.energy_kwh, answer.energy_kwh))
    return (
        row.key or "unknown",
        f"{row.energy_kwh:,.2f}",
        share,
        f"{row.gpu_hours:,.2f}",
        f"{row.idle_gpu_hours:,.2f}",
    )


def idle_row(one: IdleGpu) -> Sequence[str]:
    """Return the row of an idle GPU."""
    return (one.team, one.node, str(one.index), duration(one.idle_s), one.job_id, one.name, one.user)


def _bar(name: str, value: float | None, columns: Iterable[UseColumn], of: Of) -> str:
    if value is None:
        return f"{name:<24}  not shown by the exporter"
    filled = round(BAR_CHARS * min(100.0, value) / 100)
    return f"{name:<24}{value:6.1f} % {'█' * filled}{'░' * (BAR_CHARS - filled)}  {_spark(columns, of)}".rstrip()


def _spark(columns: Iterable[UseColumn], of: Of) -> str:
    """Return the history as one character per column."""
    values = [0.0 if (value := of(column)) is None else value for column in columns]
    return "".join(SPARKS[min(len(SPARKS) - 1, int(value / 100 * len(SPARKS)))] for value in values)


def _share(part: float, whole: float) -> float | None:
    return 100.0 * part / whole if whole else None


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"
