"""The command `muster bench ways`: three scaling strategies over the Alibaba openb trace in virtual time."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from muster.cli import output as printed
from muster.cli.errors import refused, usage
from muster.cli.machine import Machine, sentence, this_machine
from muster.cli.options import Output
from muster.cli.progress import measured
from muster.cli.simulate_trace import trace_files
from muster.cli.text import duration
from muster.core.virtual import NeverSettlesError
from muster.simulator.errors import InputError
from muster_tools.bench.ways.load import Amount, Work, work_of
from muster_tools.bench.ways.report import LABELS, assumptions, chart, to_json
from muster_tools.bench.ways.run import GPUS_PER_HOST, Result, Way, play_way

CHART = "ways.svg"
NUMBERS = "ways.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters. out: folder for the chart and the numbers, None for no files."""

    directory: Path
    amount: Amount
    out: Path | None


def run(plan: Plan, form: Output) -> None:
    """Run all strategies and print them side by side. Raises CliError."""
    if plan.amount.gpus % GPUS_PER_HOST:
        raise usage(f"--gpus: {plan.amount.gpus} is not a multiple of {GPUS_PER_HOST}, the GPUs of a host")
    if plan.out is not None:
        _prepare(plan.out)
    machine = this_machine()
    _, tasks, _ = trace_files(plan.directory, nodes=None, pods=None).read()
    try:
        work = work_of(tasks, plan.amount)
    except InputError as error:
        raise usage(str(error)) from error
    began_s = time.perf_counter()
    results = [_played(way, work, plan.amount) for way in Way]
    wall_s = time.perf_counter() - began_s
    value = _value(results, work, plan.amount, machine, wall_s)
    if plan.out is not None:
        _write(plan.out, {CHART: chart(results), NUMBERS: json.dumps(value, indent=2) + "\n"})
    if form is Output.JSON:
        printed.emit_json(value)
        return
    _tell(results, work, plan, machine, wall_s)


def _played(way: Way, work: Work, amount: Amount) -> Result:
    try:
        with measured(LABELS[way], total=work.window_s / 3600) as reached:
            return play_way(way, work, gpus=amount.gpus, seed=amount.seed, reached=reached)
    except NeverSettlesError as error:
        raise refused(f"{LABELS[way]}: {error}") from error


def _value(
    results: Sequence[Result], work: Work, amount: Amount, machine: Machine, wall_s: float
) -> dict[str, JsonValue]:
    ways: list[JsonValue] = [to_json(result) for result in results]
    rests: dict[str, JsonValue] = dict(assumptions(work, amount))
    return {"ways": ways, "assumptions": rests, "wall_s": round(wall_s, 1), "machine": asdict(machine)}


def _tell(results: Sequence[Result], work: Work, plan: Plan, machine: Machine, wall_s: float) -> None:
    headings = ("", *(LABELS[result.way] for result in results))
    rows = (
        ("jobs done", *(f"{result.done:,} of {result.jobs:,}" for result in results)),
        ("wait, mean", *(duration(result.mean_wait_s) for result in results)),
        ("wait, p95", *(duration(result.wait_s(0.95)) for result in results)),
        ("GPU use, of those on", *(f"{100 * result.gpu_share_on:.1f} %" for result in results)),
        ("GPU use, of all", *(f"{100 * result.gpu_share_all:.1f} %" for result in results)),
        ("GPUs on, mean", *(f"{result.gpus_on_mean:.1f}" for result in results)),
        ("hosts on, mean", *(f"{result.hosts_on_mean:.1f}" for result in results)),
        ("energy, pool off", *(f"{result.kwh:,.0f} kWh" for result in results)),
        ("energy, pool idling", *(f"{result.kwh + result.pool_kwh:,.0f} kWh" for result in results)),
        ("GPUs attached", *(f"{result.attached:,}" for result in results)),
        ("nodes added", *(f"{result.nodes_added:,}" for result in results)),
    )
    printed.table(headings, rows, right=headings[1:])
    printed.details(assumptions(work, plan.amount).items())
    printed.details([("machine", sentence(machine)), ("took", f"{wall_s:.0f} s")])
    if plan.out is not None:
        printed.details([("chart", str(plan.out / CHART)), ("numbers", str(plan.out / NUMBERS))])


def _prepare(out: Path) -> None:
    """Check before the run that the results can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise usage(f"--out: {out}: {error.strerror}; name a folder that can be written") from error


def _write(out: Path, files: dict[str, str]) -> None:
    try:
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise usage(f"--out: {error.filename}: {error.strerror}; name a folder that can be written") from error
