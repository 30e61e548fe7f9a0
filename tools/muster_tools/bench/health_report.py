"""`muster bench health`: runs it, and prints the figures."""

from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster_tools.bench.fresh_stack import Progress, Say, run_in_fresh_directory
from muster_tools.bench.health import HealthReport, Plan, Spread, measure

__all__ = ["Plan", "run"]


def run(plan: Plan, form: Output) -> None:
    """Measure and print. Raises CliError."""
    machine = this_machine()

    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, HealthReport]:
        return measure(plan, directory, say=say, progress=progress)

    found = run_in_fresh_directory(run_once, total=plan.gangs, what="gangs hurt")
    if form is Output.JSON:
        output.emit_json({**asdict(found), "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.details(_rows(found))


def _rows(found: HealthReport) -> list[tuple[str, str]]:
    return [
        ("node avoided", f"{_words(found.avoided_ms)} after a page showed its fault ({found.gangs} gangs)"),
        ("gang in its queue", f"{_words(found.requeued_ms)} after the fault was told"),
        ("events", f"{found.events} on {found.nodes} nodes, sent at {found.sent_per_s:.0f}/s"),
        ("told", f"{found.told}, {found.told_per_s:.0f}/s; each {_words(found.told_ms)} after its page"),
        ("health's processor time", f"{found.health_cpu_s:.2f} s"),
    ]


def _words(spread: Spread) -> str:
    return f"{spread.p50:.0f} ms median, {spread.p99:.0f} ms p99, {spread.max:.0f} ms at most"
