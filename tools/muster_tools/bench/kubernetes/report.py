"""Output of `muster bench kubernetes`: a table, JSON and charts."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from muster.cli import output
from muster.cli.errors import usage
from muster.cli.machine import sentence
from muster.cli.options import Output
from muster_tools.bench.kubernetes.charts import CHART, chart
from muster_tools.bench.kubernetes.plan import Contender, Plan
from muster_tools.bench.kubernetes.result import API_SERVER, ETCD, Result
from muster_tools.bench.kubernetes.run import Comparison, compare

BINDS_RATIO = 2.0
"""Required binds per second, relative to the better of kube-scheduler's profiles."""
P99_RATIO = 1 / 3
"""Allowed 99th percentile of create to bound, relative to the same profile."""
FLOOR_SHARE = 0.7
"""Required binds per second relative to the floor, where the API server is the bottleneck."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one contender of Muster's. None: this run has no contender to compare with."""

    contender: Contender
    all_placed: bool
    binds_ratio: float | None
    p99_ratio: float | None
    floor_share: float | None
    """Binds per second, relative to the floor."""
    running_share: float | None
    """Running pods per second, relative to the floor, whose kubelets lag behind; reported, not judged."""
    lists_in_surge: int

    @property
    def reached(self) -> bool | None:
        """Return whether all were placed at the required rate; None without a contender to compare with."""
        faster = None
        if self.binds_ratio is not None and self.p99_ratio is not None:
            faster = self.binds_ratio >= BINDS_RATIO and self.p99_ratio <= P99_RATIO
        at_the_floor = None if self.floor_share is None else self.floor_share >= FLOOR_SHARE
        if faster is None and at_the_floor is None:
            return None
        return self.all_placed and bool(faster or at_the_floor)


def verdicts(results: Sequence[Result]) -> tuple[Verdict, ...]:
    """Compare each of Muster's contenders with kube-scheduler on the same kind of devices and with the floor."""
    by_name = {result.contender: result for result in results}
    floor = by_name.get(Contender.FLOOR)
    found = []
    for contender, others in (
        (Contender.MUSTER, (Contender.DEFAULT, Contender.BIN_PACKING)),
        (Contender.MUSTER_CLAIMS, (Contender.CLAIMS,)),
    ):
        if (ours := by_name.get(contender)) is None:
            continue
        better = max(
            (by_name[other] for other in others if other in by_name),
            key=lambda result: (result.placed, result.binds_per_s),
            default=None,
        )
        found.append(
            Verdict(
                contender=contender,
                all_placed=ours.stranded == 0,
                binds_ratio=_ratio(ours.binds_per_s, better.binds_per_s if better else 0.0),
                p99_ratio=_ratio(ours.latency_ms.p99, better.latency_ms.p99 if better else 0.0),
                floor_share=_ratio(ours.binds_per_s, floor.binds_per_s if floor else 0.0),
                running_share=_ratio(ours.running_per_s, floor.running_per_s if floor else 0.0),
                lists_in_surge=ours.surge.lists,
            )
        )
    return tuple(found)


def _ratio(ours: float, theirs: float) -> float | None:
    return round(ours / theirs, 3) if theirs else None


FIGURES = "kubernetes.json"


def run(plan: Plan, form: Output) -> None:
    """Run the comparison and print its results. Raises CliError."""
    if plan.out is not None:
        _prepare(plan.out)
    found = compare(plan)
    value = document(found)
    if plan.out is not None:
        _write(plan.out, {FIGURES: (json.dumps(value, indent=2) + "\n").encode(), CHART: chart(found.results)})
    if form is Output.JSON:
        output.emit_json(value)
        return
    _tell(found)


def document(found: Comparison) -> dict[str, JsonValue]:
    """Return the whole comparison as JSON; its keys are stable."""
    plan = found.plan
    contenders: list[JsonValue] = [result.document() for result in found.results]
    judged: list[JsonValue] = [
        {**asdict(verdict), "contender": verdict.contender.value, "reached": verdict.reached}
        for verdict in verdicts(found.results)
    ]
    return {
        "workloads": plan.workloads,
        "nodes": plan.nodes,
        "gpus_asked": sum(plan.gpus),
        "limit_s": plan.limit_s,
        "contenders": contenders,
        "verdicts": judged,
        "machine": asdict(found.machine),
    }


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return one row per figure, with one column per contender."""
    return [
        ("placed", *(f"{one.placed}" for one in results)),
        ("stranded", *(_stranded(one) for one in results)),
        ("binds per second", *(f"{one.binds_per_s:.0f}/s" for one in results)),
        ("running per second", *(f"{one.running_per_s:.0f}/s" for one in results)),
        ("created to bound p50", *(f"{one.latency_ms.p50 / 1000:.2f} s" for one in results)),
        ("p99", *(f"{one.latency_ms.p99 / 1000:.2f} s" for one in results)),
        ("API server, most memory", *(f"{one.peak_mib.get(API_SERVER, 0):.0f} MiB" for one in results)),
        ("API server, CPU", *(f"{one.cpu_s.get(API_SERVER, 0):.1f} s" for one in results)),
        ("etcd, most memory", *(f"{one.peak_mib.get(ETCD, 0):.0f} MiB" for one in results)),
        ("etcd, CPU", *(f"{one.cpu_s.get(ETCD, 0):.1f} s" for one in results)),
        ("schedulers or Muster, memory", *(f"{one.own_peak_mib:.0f} MiB" for one in results)),
        ("schedulers or Muster, CPU", *(f"{one.own_cpu_s:.1f} s" for one in results)),
        ("LISTs at its start", *(f"{one.start.lists}" for one in results)),
        ("LISTs while placing", *(f"{one.surge.lists}" for one in results)),
        ("watches opened at its start", *(f"{one.start.watches}" for one in results)),
        ("watches opened while placing", *(f"{one.surge.watches}" for one in results)),
        ("GETs while placing", *(f"{one.surge.reads}" for one in results)),
        ("writes while placing", *(f"{one.surge.writes}" for one in results)),
    ]


def _stranded(one: Result) -> str:
    return f"{one.stranded}" if one.finished else f"{one.stranded} (time limit)"


def _tell(found: Comparison) -> None:
    names = tuple(result.contender.value for result in found.results)
    output.table(("", *names), rows(found.results), right=names)
    for result in found.results:
        own = ", ".join(
            f"{name} {mib:.0f} MiB {result.cpu_s.get(name, 0):.1f} s" for name, mib in result.peak_mib.items()
        )
        output.details([(result.contender.value, own), *((f"{result.contender.value}: note", n) for n in result.notes)])
    _tell_crowds(found.results)
    for verdict in verdicts(found.results):
        output.details([(verdict.contender.value, _words(verdict))])
    output.details([("machine", sentence(found.machine))])
    if found.plan.out is not None:
        output.details([("chart", str(found.plan.out / CHART)), ("figures", str(found.plan.out / FIGURES))])


def _tell_crowds(results: Sequence[Result]) -> None:
    crowds = [crowd for result in results for crowd in result.crowds]
    if not crowds:
        return
    headings = ("FOLLOWERS", "API SERVER MEMORY", "API SERVER CPU", "LISTS", "WATCHES", "RECEIVED")
    lines = [
        (
            f"{crowd.count} {crowd.what}",
            f"{crowd.rss_mib:+.0f} MiB",
            f"{crowd.cpu_s:.1f} s in {crowd.took_s:.0f} s",
            f"{crowd.requests.lists}",
            f"{crowd.requests.watches}",
            f"{crowd.received_mib:.1f} MiB",
        )
        for crowd in crowds
    ]
    output.table(headings, lines, right=headings[1:])


def _words(verdict: Verdict) -> str:
    said = ["all placed" if verdict.all_placed else "not all placed"]
    if verdict.binds_ratio is not None:
        said.append(f"{verdict.binds_ratio:.2f} x the better kube-scheduler's binds per second")
    if verdict.p99_ratio is not None:
        said.append(f"{verdict.p99_ratio:.2f} x its p99")
    if verdict.floor_share is not None:
        said.append(f"{100 * verdict.floor_share:.0f} % of the floor")
    if verdict.running_share is not None:
        said.append(f"{100 * verdict.running_share:.0f} % of it until all run")
    if verdict.reached is not None:
        said.append("reached" if verdict.reached else "not reached")
    return "; ".join(said)


def _prepare(out: Path) -> None:
    """Check before the run that the results can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise usage(f"--out: {out}: {error.strerror}; name a folder that can be written") from error


def _write(out: Path, files: dict[str, bytes]) -> None:
    try:
        for name, content in files.items():
            (out / name).write_bytes(content)
    except OSError as error:
        raise usage(f"--out: {error.filename}: {error.strerror}; name a folder that can be written") from error
