"""Ended jobs as rows, and their sums by team, queue, user or job. Every figure comes from the rows of the jobs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.accounting_commands import ReportBy
from muster.cli.errors import refused, usage
from muster.cli.options import Output
from muster.cli.output import print_note
from muster.cli.presentation import chosen
from muster.cli.session import call
from muster.cli.text import duration, gpus, node_list
from muster.core.instant import NS_PER_S
from muster.schemas.job import Phase
from muster.schemas.views import JobView

if TYPE_CHECKING:
    from muster.client import Muster

S_PER_HOUR = 3_600.0
COLUMNS = ("JOBID", "NAME", "USER", "TEAM", "STATE", "EXIT", "ENDED", "ELAPSED", "WAITED", "GPUS", "GPU_H")
COLUMNS_ALL = (
    *COLUMNS, "BUSY_H", "QUEUE", "SUBMITTED", "STARTED", "NODES", "ATTEMPTS", "PREEMPTIONS", "CLUSTER",
)  # fmt: skip
NUMBERS = (
    "EXIT", "ELAPSED", "WAITED", "GPUS", "GPU_H", "MEASURED_H", "BUSY_H", "BUSY", "ATTEMPTS", "PREEMPTIONS", "JOBS",
    "FAILED", "WAITED_H",
)  # fmt: skip
_AGO = re.compile(r"[0-9.]+\s*(min|w|d|h|m|s).*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Which ended jobs, as the user wrote it. Empty: any. from_, to: a moment, or a time ago."""

    user: str = ""
    team: str = ""
    queue: str = ""
    state: str = ""
    from_: str = ""
    to: str = ""


@dataclass(slots=True, kw_only=True)
class Account:
    """Sums over jobs. Hours of GPUs, except `waited_h`."""

    key: str
    name: str = ""
    """Name of the job; empty for other rows."""
    jobs: int = 0
    failed: int = 0
    """Jobs that ended as failed or timed out."""
    gpu_hours: float = 0.0
    """Requested GPUs multiplied by the run time of all attempts."""
    measured_hours: float = 0.0
    """GPU-hours for which telemetry has readings."""
    busy_hours: float = 0.0
    """GPU hours weighted by the utilization."""
    waited_h: float = 0.0
    """Time between submission and end in which the jobs did not run."""
    preemptions: int = 0

    def add(self, job: JobView) -> None:
        """Add an ended job."""
        self.jobs += 1
        self.failed += job.phase in (Phase.FAILED, Phase.TIMED_OUT)
        self.gpu_hours += gpu_hours(job)
        self.measured_hours += job.measured_s / S_PER_HOUR
        self.busy_hours += job.busy_s / S_PER_HOUR
        self.waited_h += waited_s(job) / S_PER_HOUR
        self.preemptions += job.preemptions


def gpu_hours(job: JobView) -> float:
    """Return the requested GPUs multiplied by the run time of all attempts."""
    return job.gpu_milli / 1_000 * job.ran_s / S_PER_HOUR


def waited_s(job: JobView) -> float:
    """Return the time between submission and end in which the job did not run."""
    return max(0.0, (job.ended_at - job.submitted_at) / NS_PER_S - job.ran_s)


def sums(jobs: Iterable[JobView], by: ReportBy) -> list[Account]:
    """Return the accounts of these ended jobs, the one with the most GPU-hours first."""
    found: dict[str, Account] = {}
    for job in jobs:
        key = _key(job, by)
        account = found.get(key)
        if account is None:
            account = found[key] = Account(key=key, name=job.name if by is ReportBy.JOB else "")
        account.add(job)
    return sorted(found.values(), key=lambda one: (-one.gpu_hours, one.key))


def _key(job: JobView, by: ReportBy) -> str:
    match by:
        case ReportBy.TEAM:
            return job.team
        case ReportBy.QUEUE:
            return job.queue
        case ReportBy.USER:
            return job.principal
        case ReportBy.JOB:
            return job.id


def moment(text: str, *, option: str, now_ns: int) -> int:
    """Return a moment in nanoseconds: `2026-11-22T10:00`, or how long ago, `7d`. Raises CliError."""
    if _AGO.fullmatch(text):
        return max(1, now_ns - round(moments.length_s(text, option=option) * NS_PER_S))
    return moments.moment_ns(text, option=option)


def history(state_dir: Path, form: Output, ended: Ended, *, limit: int) -> None:
    """Print ended jobs, the last to end first. Raises CliError."""
    jobs = _read(state_dir, ended, limit=limit)
    if form is Output.JSON:
        output.emit_models(jobs)
        return
    is_short = form is Output.TABLE
    headings = COLUMNS if is_short else COLUMNS_ALL
    output.table(headings, (job_row(job)[: len(headings)] for job in jobs), right=NUMBERS)
    if len(jobs) == limit:
        print_note(f"at most {limit} jobs are shown; --limit raises this number")


def report(state_dir: Path, form: Output, ended: Ended, *, by: ReportBy, most: int) -> None:
    """Print sums over ended jobs. Raises CliError, also if there are more than `most` jobs."""
    jobs = _read(state_dir, ended, limit=most + 1)
    if len(jobs) > most:
        raise refused(f"--from: more than {most} jobs ended in this period; give a shorter one with --from and --to")
    accounts = sums(jobs, by)
    if form is Output.JSON:
        output.emit_json({"by": by.value, "rows": [asdict(one) for one in accounts]})
        return
    named = ("NAME",) if by is ReportBy.JOB else ()
    headings = (
        by.value.upper(), *named, "JOBS", "FAILED", "GPU_H", "MEASURED_H", "BUSY_H", "BUSY", "WAITED_H", "PREEMPTIONS",
    )  # fmt: skip
    rows = [account_row(one, named=bool(named)) for one in accounts]
    if len(accounts) > 1 and not (chosen().csv or chosen().sort_by):  # a sorted total would stand anywhere
        rows.append(account_row(total(jobs), named=bool(named)))
    output.table(headings, rows, right=NUMBERS)


def total(jobs: Iterable[JobView]) -> Account:
    """Return the account of all these jobs."""
    whole = Account(key="total")
    for job in jobs:
        whole.add(job)
    return whole


def job_row(job: JobView, *, zone: tzinfo | None = None) -> Sequence[str]:
    """Return all columns of an ended job. zone: of the moments; None: this machine's."""
    submitted, started, ended = (_clock(at, zone) for at in (job.submitted_at, job.running_at, job.ended_at))
    return (
        job.id, job.name, job.principal, job.team, job.phase.value, str(job.exit_code), ended, duration(job.ran_s),
        duration(waited_s(job)), gpus(job.gpu_milli), f"{gpu_hours(job):.2f}", _measured(job.busy_s, job.measured_s),
        job.queue, submitted, started, node_list(job.nodes), str(job.attempt), str(job.preemptions), job.cluster or "-",
    )  # fmt: skip


def account_row(one: Account, *, named: bool) -> Sequence[str]:
    """Return the columns of an account. named: with the name of the job."""
    busy = f"{100 * one.busy_hours / one.measured_hours:.0f}%" if one.measured_hours else "-"
    return (
        one.key, *((one.name,) if named else ()), str(one.jobs), str(one.failed), f"{one.gpu_hours:.2f}",
        f"{one.measured_hours:.2f}", f"{one.busy_hours:.2f}", busy, f"{one.waited_h:.2f}", str(one.preemptions),
    )  # fmt: skip


def _measured(busy_s: float, measured_s: float) -> str:
    return f"{busy_s / S_PER_HOUR:.2f}" if measured_s else "-"


def _clock(at_ns: int, zone: tzinfo | None) -> str:
    if not at_ns:
        return "-"
    return datetime.fromtimestamp(at_ns // NS_PER_S, tz=zone).astimezone(zone).isoformat(timespec="seconds")


def _read(state_dir: Path, ended: Ended, *, limit: int) -> Sequence[JobView]:
    now_ns = SystemTime().wall()
    from_ns = moment(ended.from_, option="--from", now_ns=now_ns) if ended.from_ else 0
    to_ns = moment(ended.to, option="--to", now_ns=now_ns) if ended.to else 0
    if to_ns and to_ns <= from_ns:
        raise usage("--to: lies before --from; give a later moment")

    async def ask(muster: "Muster") -> Sequence[JobView]:
        return await muster.list(
            team=ended.team,
            queue=ended.queue,
            phase=Phase(ended.state) if ended.state else None,
            user=ended.user,
            ended=True,
            ended_from=from_ns,
            ended_before=to_ns,
            limit=limit,
        )

    return call(state_dir, ask)
