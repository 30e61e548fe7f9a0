"""`muster bench cycle`: runs it, and prints the figures."""

from dataclasses import asdict

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import counting
from muster_tools.bench.cycle import WAITING_S, CycleReport, Spent, Spread, measure
from muster_tools.bench.cycle_input import Scale


def run(scale: Scale, *, changes: int, form: Output) -> None:
    """Measure and print."""
    machine = this_machine()
    with counting("changes", total=changes) as advance:
        found = measure(scale, changes=changes, say=output.print_note, done=advance)
    if form is Output.JSON:
        output.emit_json({**asdict(found), "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.details(_rows(found))


def _rows(found: CycleReport) -> list[tuple[str, str]]:
    return [
        (
            "input",
            f"{found.gpus} GPUs, all held by {found.running} jobs; {found.pending} wait in {found.queues} queues",
        ),
        ("fill the fleet", _once(found.fill)),
        ("first, all jobs new", f"{_once(found.first)}, {found.first_decisions} decisions"),
        ("  longest decision", _once(found.first_decide_max)),
        (f"  {WAITING_S / 60:.0f} minutes later", f"{_once(found.waiting)} in all, {found.victims} made way"),
        ("one ended, one came", _often(found.changed)),
        ("nothing changed", _often(found.idle)),
        ("during the changes", f"{found.placed} placed, {found.preempted} preempted"),
    ]


def _once(spent: Spent) -> str:
    return f"{spent.wall_ms:,.1f} ms ({spent.cpu_ms:,.1f} ms CPU)"


def _often(spread: Spread) -> str:
    return (
        f"{spread.wall_median_ms:.2f} ms median, {spread.wall_min_ms:.2f} least, {spread.wall_max_ms:.2f} most "
        f"({spread.cpu_median_ms:.2f} ms CPU median) of {spread.runs}"
    )
