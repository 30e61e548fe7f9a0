"""`muster bench attach`: runs it, and prints the figures."""

from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster_tools.bench.attach import AttachReport, Plan, measure
from muster_tools.bench.fresh_stack import Progress, Say, run_in_fresh_directory

__all__ = ["Plan", "run"]


def run(plan: Plan, form: Output) -> None:
    """Measure and print. Raises CliError."""
    machine = this_machine()

    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, AttachReport]:
        return measure(plan, directory, say=say, progress=progress)

    found = run_in_fresh_directory(run_once, total=plan.gpus, what="attached")
    if form is Output.JSON:
        output.emit_json(
            {
                **asdict(found),
                "switch_s_median": plan.switch_s,
                "switch_sigma": plan.sigma,
                "seed": plan.seed,
                "machine": asdict(machine),
            }
        )
        return
    print_line(sentence(machine))
    output.details(_rows(found))


def _rows(found: AttachReport) -> list[tuple[str, str]]:
    bound = f"{found.lower_bound_s:.2f} s: no schedule of these switches on {found.limit} lanes is shorter"
    listed = f"{found.list_schedule_s:.2f} s: each on the first free lane, without any delay"
    return [
        ("attached", f"{found.gpus} GPUs on one fabric, at most {found.limit} at a time ({found.most_at_once} were)"),
        ("measured", f"{found.wall_s:.2f} s from accepted to the last one attached"),
        ("lower bound", f"{bound}; measured is {found.wall_to_lower_bound:.3f} x"),
        ("list schedule", f"{listed}; measured is {found.wall_to_list_schedule:.3f} x"),
        ("one by one", f"{found.serial_s:.2f} s; measured is {found.serial_to_wall:.1f} times faster"),
        ("longest switch", f"{found.longest_s:.2f} s"),
        ("overhead of a call", f"{found.call_overhead_s_median * 1000:.0f} ms median, from intent to outcome"),
        ("accepted after", f"{found.accepted_s * 1000:.0f} ms"),
    ]
