"""`muster bench scale`: runs it, and prints the figures."""

from dataclasses import asdict

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import counting
from muster_tools.bench.scale import Latency, ScaleReport, measure
from muster_tools.bench.scale_input import Scale


def run(scale: Scale, *, decisions: int, form: Output) -> None:
    """Measure and print."""
    machine = this_machine()
    with counting("decisions", total=decisions) as advance:
        found = measure(scale, decisions=decisions, say=output.print_note, done=advance)
    if form is Output.JSON:
        output.emit_json({**asdict(found), "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.details(_rows(found))


def _rows(found: ScaleReport) -> list[tuple[str, str]]:
    burst = (
        f"{found.burst_served} served in {found.burst_decisions} decisions, {found.burst_ms:,.0f} ms in all, "
        f"{found.burst_longest_ms:,.1f} ms the longest"
    )
    chosen = ", ".join(f"{n} {name}" for name, n in found.chosen.items())
    return [
        ("input", f"{found.nodes} nodes, {found.attached} GPUs on them, {found.held} jobs, {found.pool} in the pool"),
        ("from fact to choice", f"{_words(found.decision)} of {found.decisions}"),
        ("  of it processor time", _words(found.cpu)),
        ("chosen", f"{chosen}; {found.gpus} GPUs in all"),
        (f"{found.burst} jobs at once", burst),
        ("nothing changed", f"{found.nothing_ms:.3f} ms"),
    ]


def _words(latency: Latency) -> str:
    return f"{latency.p50_ms:.1f} ms median, {latency.p99_ms:.1f} ms p99, {latency.max_ms:.1f} ms most"
