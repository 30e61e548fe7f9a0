"""Simulate traces and synthetic loads, and write reports."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import JsonValue

from muster.agent.core.behaviour import Behaviour
from muster.bus.clock import SystemTime
from muster.cli import output as printed
from muster.cli.errors import refused, usage
from muster.cli.files import read_text
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_lines
from muster.cli.progress import counting, measured
from muster.cli.session import call
from muster.cli.text import duration
from muster.core import after
from muster.core.instant import seconds_between
from muster.core.virtual import NeverSettlesError
from muster.openb.trace import NODE_FILE, TASK_FILE, OpenbFormatError, OpenbNode, OpenbTask, parse_nodes, parse_tasks
from muster.simulator.document import LIMITS, checked
from muster.simulator.engine import START
from muster.simulator.errors import InputError
from muster.simulator.filling import Filling, fill, summary
from muster.simulator.live import scenario_of
from muster.simulator.load.page import page
from muster.simulator.load.play import STEP_S, Load, Played, play, play_from
from muster.simulator.load.policy import Assigner, PolicyFile, default_policy, parse_policy
from muster.simulator.load.report import Report, jobs_csv, report_of
from muster.simulator.load.synthetic import synthetic_load
from muster.simulator.load.trace import arrivals, openb_nodes, qos_by_task
from muster.simulator.scenario import Scenario
from muster.simulator.scenario.plan import Plan, plan_of

if TYPE_CHECKING:
    from muster.client import Muster


TRACE_BYTES_MAX = 256 * 1024 * 1024
JOBS_MAX = 200_000
"""Live jobs that are read, newest first: as many as a scenario may have."""

DRAIN_S = 90 * 86_400.0
"""Limit of the simulated time after the last arrival; jobs that have not ended then count as they are."""


Trace = tuple[tuple[OpenbNode, ...], tuple[OpenbTask, ...], dict[str, str]]
"""Nodes, tasks, and the quality of service by task."""


def print_scenario(state_dir: Path) -> None:
    """Print the state of the stack as a scenario in YAML. Raises CliError."""
    print_lines(yaml.safe_dump(snapshot(state_dir), sort_keys=False, default_flow_style=None, width=160))


def snapshot(state_dir: Path) -> dict[str, JsonValue]:
    """Return nodes, queues, live jobs and reservations of the stack as a scenario. Raises CliError."""

    async def ask(muster: "Muster") -> dict[str, JsonValue]:
        nodes, queues = await muster.nodes(), await muster.queues()
        jobs = await muster.list(live_only=True, limit=JOBS_MAX)
        kept = [view.spec for view in await muster.reservations()]
        now_ns = SystemTime().wall()
        return scenario_of(nodes=nodes, queues=queues, jobs=jobs, reservations=kept, now_ns=now_ns)

    return call(state_dir, ask)


@dataclass(frozen=True, slots=True)
class TraceFiles:
    """Paths of the node list and the pod list."""

    nodes: Path
    pods: Path

    def read(self) -> Trace:
        """Read both lists. Raises CliError."""
        texts = [read_text(path, bytes_max=TRACE_BYTES_MAX, form="list in CSV") for path in (self.nodes, self.pods)]
        try:
            nodes = parse_nodes(texts[0], file=str(self.nodes))
            tasks = parse_tasks(texts[1], file=str(self.pods))
        except OpenbFormatError as error:
            raise usage(str(error)) from error
        if not (nodes and tasks):
            raise usage(f"{self.pods if nodes else self.nodes}: has only a header; give at least one row")
        return nodes, tasks, qos_by_task(texts[1])


@dataclass(frozen=True, slots=True)
class Shape:
    """The load. scale: jobs per task. compress: factor by which tasks arrive faster. seed: random seed."""

    scale: float
    compress: float
    seed: int


def trace_files(directory: Path | None, *, nodes: Path | None, pods: Path | None) -> TraceFiles:
    """Return the paths of the lists. Raises CliError if one is missing."""
    if directory is None and (nodes is None or pods is None):
        raise usage(f"DIR: is missing; give the directory with {NODE_FILE} and {TASK_FILE}, or both --nodes and --pods")
    folder = directory or Path()
    return TraceFiles(nodes or folder / NODE_FILE, pods or folder / TASK_FILE)


def policies(policy: Path | None, compare: tuple[Path, Path] | None) -> list[tuple[str, PolicyFile | None]]:
    """Return (name, policy) of each run; None: the default of the trace. Raises CliError."""
    if compare is not None:
        if policy is not None:
            raise usage("--compare: cannot be combined with --policy; remove one of them")
        return [_policy(path) for path in compare]
    return [("fair by qos", None) if policy is None else _policy(policy)]


def _policy(path: Path) -> tuple[str, PolicyFile | None]:
    try:
        found = parse_policy(read_text(path, bytes_max=LIMITS.characters, form="policy file"))
    except InputError as error:
        raise usage(f"{path}: {error}") from error
    return found.name or path.stem, found


def run(
    files: TraceFiles,
    *,
    policies: Sequence[tuple[str, PolicyFile | None]],
    state_dir: Path | None,
    shape: Shape,
    out: Path,
    output: Output,
) -> None:
    """Simulate the trace with each policy; write one report. state_dir: of the stack to start from. Raises CliError."""
    trace = files.read()
    _prepare(out)
    live = None if state_dir is None else _live(state_dir)
    runs: list[tuple[str, Played]] = []
    for name, policy in policies:
        try:
            runs.append((name, _one(name, policy, trace, live, shape)))
        except InputError as error:
            raise usage(f"{name}: {error}") from error
    _finish(runs, out=out, output=output, title="openb in virtual time")


def print_filling(files: TraceFiles, *, seeds: Sequence[int], output: Output) -> None:
    """Print one line of JSON per seed, and the mean of several seeds. Raises CliError."""
    nodes, tasks, _ = files.read()
    runs: list[Filling] = []
    try:
        with counting("filling", total=len(seeds)) as advance:
            for seed in seeds:
                runs.append(fill(nodes, tasks, seed=seed))
                advance()
    except InputError as error:
        raise usage(str(error)) from error
    if output is Output.JSON:
        printed.emit_json(runs[0].to_json() if len(runs) == 1 else summary(runs))
        return
    rows = [(str(run.seed), *(f"{pct:.2f} %" for pct in run.allocated_pct.values())) for run in runs]
    if len(runs) > 1:
        means = (sum(run.allocated_pct[pct] for run in runs) / len(runs) for pct in runs[0].allocated_pct)
        rows.append(("mean", *(f"{mean:.2f} %" for mean in means)))
    printed.table(("SEED", "AT 100 %", "AT 130 %"), rows, right=("AT 100 %", "AT 130 %"))


def _live(state_dir: Path) -> Scenario:
    return checked(Scenario, snapshot(state_dir))


def _one(name: str, policy: PolicyFile | None, trace: Trace, live: Scenario | None, shape: Shape) -> Played:
    """Simulate one run. live: the cluster to start from, None: that of the trace. Raises InputError, CliError."""
    nodes, tasks, qos = trace
    if live is not None:
        policy, live = _merged(policy, live)
    assigner = Assigner(policy or default_policy(qos), seed=shape.seed)
    came = arrivals(
        tasks, qos=qos, assigner=assigner, start=START, scale=shape.scale, compress=shape.compress, seed=shape.seed
    )
    load = Load(
        name=f"openb, {shape.scale:g} jobs per task, tasks come {shape.compress:g} times as fast",
        nodes=openb_nodes(nodes),
        queues=assigner.specs,
        arrivals=came,
        until=after(came[-1][0] if came else START, DRAIN_S),
        behaviour=Behaviour(seed=shape.seed),
    )
    return _played(load, name, None if live is None else plan_of(live))


def _merged(policy: PolicyFile | None, live: Scenario) -> tuple[PolicyFile, Scenario]:
    """Return the queues of the policy or of the cluster, and the cluster with them."""
    queues = {queue.name: queue for queue in live.queues}
    if policy is not None:
        queues |= {queue.name: queue for queue in policy.queues}
    every = tuple(queues.values())
    if not every:
        raise usage("--from-cluster: the cluster has no queues; create queues, or give --policy")
    assign = () if policy is None else policy.assign
    return PolicyFile(queues=every, assign=assign), live.model_copy(update={"queues": every})


def run_synthetic(
    *, gpus: int, jobs: int, days: float, load: float, seed: int, step_s: float, out: Path | None, output: Output
) -> None:
    """Simulate a synthetic load and print the results and the speed. Raises CliError."""
    if out is not None:
        _prepare(out)
    machine = this_machine()
    made = synthetic_load(gpus=gpus, jobs=jobs, days=days, seed=seed, load=load)
    began = time.perf_counter()
    played = _played(made, "synthetic", None, step_s=step_s)
    wall_s = time.perf_counter() - began
    report = report_of(played, policy="synthetic")
    if out is not None:
        _write([("synthetic", played)], [report], out, title="A synthetic load")
    if output is Output.JSON:
        figures = {"wall_s": round(wall_s, 2), "facts": played.facts, "us_per_fact": round(1e6 * wall_s / played.facts)}
        printed.emit_json({**figures, "machine": asdict(machine), "report": report.to_json()})
        return
    printed.details(
        [
            ("machine", sentence(machine)),
            ("input", made.name),
            ("time", f"{wall_s:.1f} s for {duration(played.virtual_s)}, {played.virtual_s / wall_s:,.0f}x"),
            ("facts", f"{played.facts:,}, {1e6 * wall_s / played.facts:.0f} microseconds each"),
            *_pairs(report),
        ]
    )


def _played(load: Load, name: str, plan: Plan | None, *, step_s: float = STEP_S) -> Played:
    def told(virtual_s: float, facts: int) -> None:
        reached(min(total_h, virtual_s / 3600), f"hours, {facts:,} facts")

    total_h = seconds_between(START, load.arrivals[-1][0] if load.arrivals else load.until) / 3600
    try:
        with measured(name, total=total_h) as reached:
            if plan is None:
                return play(load, reached=told, step_s=step_s)
            return play_from(plan, load, reached=told, step_s=step_s)
    except NeverSettlesError as error:
        raise refused(f"{name}: {error}") from error


def _prepare(out: Path) -> None:
    """Create the output directory before the simulation, so that an unwritable one fails early."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise usage(f"--out: {out}: {error.strerror}; give a writable directory") from error


def _finish(runs: Sequence[tuple[str, Played]], *, out: Path, output: Output, title: str) -> None:
    reports = [report_of(played, policy=name) for name, played in runs]
    _write(runs, reports, out, title=title)
    if output is Output.JSON:
        printed.emit_json(_json(reports))
        return
    for report in reports:
        printed.details([("policy", report.policy), *_pairs(report)])
    printed.details([("report", str(out / "report.html"))])


def _write(runs: Sequence[tuple[str, Played]], reports: Sequence[Report], out: Path, *, title: str) -> None:
    contents = {
        "report.html": page(reports, title=title),
        "report.json": json.dumps(_json(reports), indent=2) + "\n",
        "jobs.csv": jobs_csv(runs),
    }
    try:
        for name, content in contents.items():
            (out / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise usage(f"--out: {error.filename}: {error.strerror}; give a writable directory") from error


def _json(reports: Sequence[Report]) -> dict[str, JsonValue]:
    """Return one report, or several under `runs`."""
    return reports[0].to_json() if len(reports) == 1 else {"runs": [report.to_json() for report in reports]}


def _pairs(report: Report) -> list[tuple[str, str]]:
    return [
        ("jobs", ", ".join(f"{count:,} {how}" for how, count in report.ended.items())),
        ("utilisation", f"{report.utilisation_pct:.1f} % of {report.gpus:,.0f} GPUs over {duration(report.virtual_s)}"),
        ("preemptions", f"{report.preemptions:,}; {report.lost_gpu_h:,.1f} of {report.used_gpu_h:,.0f} GPU h lost"),
        *(
            (f"wait, {wait.of}", f"p50 {duration(wait.p50_s)}, p90 {duration(wait.p90_s)}, most {duration(wait.max_s)}")
            for wait in report.by_size
        ),
    ]
