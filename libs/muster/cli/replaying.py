"""Replay the openb trace on a separate stack with the nodes of the trace, and write the report."""

import io
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from typing_extensions import override

from muster.bus.clock import SystemTime
from muster.cli import output
from muster.cli.errors import refused, usage
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.cli.progress import measured
from muster.cli.session import connected
from muster.cli.simulate_trace import trace_files
from muster.cli.text import duration
from muster.openb.account import Counts, JobSeen, seen_in_fact
from muster.openb.replay import ReplayError, ReplayOptions, ReplayTarget, SubmitRefusedError, replay
from muster.openb.report import ReplayReport, Wait, allocation_csv, report_of
from muster.openb.trace import NODE_FILE, OpenbNode, OpenbTask, default_speedup
from muster.schemas.facts.job import JobFinished, JobUnschedulable
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec
from muster.schemas.views import FactView, JobView
from muster.stack import control
from muster.stack.options import StartOptions
from muster.stack.state_dir import StateDirError

if TYPE_CHECKING:
    from muster.client import Muster

DAY_S = 86_400.0
LEFT_TOLD_MAX = 20  # tasks that never ran, shown on the screen; the report file has all


def openb(directory: Path, *, speedup: float | None, out: Path, form: Output) -> None:
    """Replay the trace in `directory`, write the report to `out`, print it. Raises CliError."""
    nodes, tasks, _ = trace_files(directory, nodes=None, pods=None).read()
    rate = speedup or default_speedup(tasks)
    with _told_of(out):
        out.mkdir(parents=True, exist_ok=True)  # now: a report that cannot be written is found out in time
    print_note(
        f"{len(nodes)} nodes, {len(tasks)} tasks over {duration(max(t.deletion_s for t in tasks))}, {rate:,.0f}x"
    )
    try:
        with tempfile.TemporaryDirectory(prefix="muster-openb-") as name:
            report = _on_own_stack(Path(name), directory / NODE_FILE, nodes, tasks, rate)
    except (control.StartFailedError, StateDirError, ReplayError) as error:
        raise refused(str(error)) from error
    with _told_of(out):
        files = write_report(report, out)
    if form is Output.JSON:
        output.emit_json(report.model_dump(mode="json"), indent=None)
        return
    _tell(report, files)


@contextmanager
def _told_of(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise usage(f"--out: {out}: {error.strerror or error}; give a writable directory") from error


def _on_own_stack(
    state_dir: Path, csv: Path, nodes: tuple[OpenbNode, ...], tasks: tuple[OpenbTask, ...], speedup: float
) -> ReplayReport:
    """Return options in which pods start at once and never fail, so that only scheduling is measured."""
    settings: dict[str, object] = {
        "fleet": {"csv": str(csv.resolve())},
        "simulation": {"start_s": 0.0, "job_failure_share": 0.0},
    }
    control.detach(StartOptions(state_dir=state_dir, settings=settings, any_ports=True))
    try:
        return uvloop.run(_replayed(state_dir, nodes, tasks, speedup))
    finally:
        control.down(state_dir)


async def _replayed(
    state_dir: Path, nodes: tuple[OpenbNode, ...], tasks: tuple[OpenbTask, ...], speedup: float
) -> ReplayReport:
    from muster.cli.fleet_ready import fleet_ready
    from muster.cli.machine import sentence, this_machine

    machine = sentence(this_machine())  # with the load before the replay
    options = ReplayOptions(speedup=speedup, run=str(SystemTime().wall()))
    async with connected(state_dir) as muster:
        await muster.set_queue(QueueSpec(name=options.team))
        await fleet_ready(muster, nodes=len(nodes), queue=options.team)
        span_s = max(task.deletion_s for task in tasks)
        began_s = time.monotonic()
        with measured("days of the trace", total=span_s / DAY_S) as reached:

            def progress(counts: Counts) -> None:
                next_s = tasks[counts.submitted].creation_s if counts.submitted < len(tasks) else span_s
                told = f"{counts.submitted}/{counts.total} sent, {counts.waiting} waiting, {counts.over} over"
                reached(min((time.monotonic() - began_s) * speedup, next_s, span_s) / DAY_S, told)

            account = await replay(tasks, _Target(muster), options=options, progress=progress)
    return report_of(account, nodes, speedup=speedup, machine=machine)


class _Target(ReplayTarget):
    """The SDK as a target of the replay."""

    def __init__(self, muster: "Muster") -> None:
        self._muster = muster

    @override
    async def submit(self, spec: JobSpec, *, idempotency_key: str) -> str:
        from muster.client import RefusedError

        try:
            return (await self._muster.submit(spec, idempotency_key=idempotency_key)).id
        except RefusedError as error:
            raise SubmitRefusedError(str(error)) from error

    @override
    async def watch(self) -> AsyncIterator[JobSeen]:
        async for fact in self._muster.watch():
            if fact.kind == "job" and (seen := _seen(fact)) is not None:
                yield seen

    @override
    async def get(self, job_id: str) -> JobView | None:
        return await self._muster.get(job_id)

    @override
    async def cancel(self, job_id: str) -> None:
        from muster.client import RefusedError

        try:
            await self._muster.cancel(job_id)
        except RefusedError:
            return  # over by now


def _seen(fact: FactView) -> JobSeen | None:
    """Read the bodies of facts that have a reason; for others the name is enough."""
    payload: JobUnschedulable | JobFinished | None = None
    if fact.name == "unschedulable":
        payload = JobUnschedulable.model_validate_json(fact.body)
    elif fact.name in ("failed", "cancelled", "timed-out"):
        payload = JobFinished.model_validate_json(fact.body)
    return seen_in_fact(job_id=fact.subject_id, name=fact.name, at=fact.time, payload=payload)


def _tell(report: ReplayReport, files: tuple[Path, ...]) -> None:
    output.details(
        [
            ("tasks", _fates(report)),
            ("placed", str(report.placed)),
            ("wait", f"{_seconds(report.wait_s)} from submitted to placed"),
            ("in trace", _durations(report.wait_trace_s)),
            ("fleet", f"{report.nodes} nodes, {report.gpus} GPUs, at most {report.gpus_allocated_max:,.1f} allocated"),
            ("took", f"{report.wall_s:.1f} s, planned {report.planned_s:.1f} s at {report.speedup:,.0f}x"),
            ("behind", f"{_seconds(report.late_s)} from planned to submitted"),
            ("machine", report.machine),
            ("files", ", ".join(map(str, files))),
        ]
    )  # fmt: skip
    for left in report.left[:LEFT_TOLD_MAX]:
        print_line(f"  {left.task}: {left.fate.value}: {left.reason} {left.detail}".rstrip())
    if len(report.left) > LEFT_TOLD_MAX:
        print_line(f"  and {len(report.left) - LEFT_TOLD_MAX} more; see report.json")


def _seconds(over: Wait) -> str:
    return f"p50 {over.p50:.3f} s, p99 {over.p99:.3f} s, max {over.max:.3f} s"


def _durations(over: Wait) -> str:
    return f"p50 {duration(over.p50)}, p99 {duration(over.p99)}, max {duration(over.max)} of the trace's time"


def _fates(report: ReplayReport) -> str:
    return (
        f"{report.tasks}: {report.finished} finished, {report.never_placed} never placed, "
        f"{report.refused} refused, {report.unfinished} unfinished"
    )


def write_report(report: ReplayReport, folder: Path) -> tuple[Path, ...]:
    """Write the three files into `folder`, which is created; return their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.json": report.model_dump_json(indent=2).encode(),
        "allocation.csv": allocation_csv(report).encode(),
        "allocation.png": allocation_png(report),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return tuple(folder / name for name in contents)


def allocation_png(report: ReplayReport) -> bytes:
    """Plot allocated GPUs and placed tasks over the time of the trace, without a display."""
    figure = Figure(figsize=(10, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # Agg, whatever the environment asks for: there is no window
    axes = figure.add_subplot()
    days = [point.trace_h / 24 for point in report.allocation]
    axes.fill_between(days, [point.gpus for point in report.allocation], step="post", alpha=0.35)
    axes.step(days, [point.gpus for point in report.allocation], where="post", label="GPUs allocated")
    axes.step(days, [point.tasks for point in report.allocation], where="post", label="tasks placed", linewidth=0.8)
    axes.set_xlabel(f"time of the trace (days), replayed in {report.wall_s:,.0f} s, planned {report.planned_s:,.0f} s")
    axes.set_ylabel("GPUs, tasks")
    axes.set_ylim(bottom=0)
    axes.set_title(
        f"{report.placed:,} of {report.tasks:,} tasks placed on {report.nodes:,} nodes with {report.gpus:,} GPUs,"
        f" at most {report.gpus_allocated_max:,.1f} GPUs at once"
    )
    axes.legend(loc="upper left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
