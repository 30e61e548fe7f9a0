"""`muster bench telemetry`: runs it, and prints the figures."""

import tempfile
from dataclasses import asdict
from pathlib import Path

import uvloop

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import measured
from muster_tools.bench.telemetry import Plan, TelemetryReport, measure

__all__ = ["Plan", "run"]


def run(plan: Plan, form: Output) -> None:
    """Measure and print."""
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, measured("rounds", total=plan.rounds) as reached:
        rounds = 0

        def done() -> None:
            nonlocal rounds
            rounds += 1
            reached(rounds, f"{rounds * plan.nodes} pages")

        found = uvloop.run(measure(plan, Path(name), say=output.print_note, done=done))
    if form is Output.JSON:
        output.emit_json({**asdict(found), "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.details(_rows(found))


def _rows(found: TelemetryReport) -> list[tuple[str, str]]:
    return [
        ("a page", f"{found.gpus} GPUs, {found.page_lines} lines, {found.page_bytes:,} bytes"),
        ("read by prometheus-client", f"{found.library_ms:.2f} ms, so {found.library_cpu_pct:.0f} % of a core for all"),
        ("read here", f"{found.first_ms:.2f} ms the first of a node, {found.read_ms:.2f} ms every other"),
        ("and all that follows", f"{found.whole_ms:.2f} ms until the message is ready"),
        ("a message", f"{found.message_bytes:,} bytes"),
        ("rounds", f"{found.rounds} over {found.nodes} nodes, one in {found.interval_s:g} s"),
        ("pages", f"{found.read:,} read, {found.failed} failed, {found.late} late"),
        (
            "processor",
            f"{found.cpu_pct:.0f} % of a core, connections and publishing included: {found.page_cpu_ms:.2f} ms a page",
        ),
        ("memory", f"{found.memory_mib:.0f} MiB"),
    ]
