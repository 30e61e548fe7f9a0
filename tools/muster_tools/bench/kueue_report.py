"""`muster bench kueue`: runs it, and prints the figures."""

from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster_tools.bench.fresh_stack import Progress, Say, run_in_fresh_directory
from muster_tools.bench.kueue import KueueReport, Plan, measure

__all__ = ["Plan", "run"]

RIG = (
    "HTTP, gateway, NATS with all facts on disk, federation, scheduler, agent with simulated pods, read model; "
    "no API server and no kubelets. Kueue's own rig has an API server and no kubelets, and drives its controller by it."
)
KUEUE = "351 to 432 s wall, large jobs admitted after 23 to 39 s on average, 661 MiB (Kueue, published and re-run)"


def run(plan: Plan, form: Output) -> None:
    """Measure and print. Raises CliError."""
    machine = this_machine()
    found = _measured(plan)
    if form is Output.JSON:
        output.emit_json({**found.document(), "share": plan.share, "rig": RIG, "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.details(_rows(plan, found))
    rows = [
        (
            name, f"{one.jobs}", f"{one.admission_mean_s:.2f} s", f"{one.admission_max_s:.2f} s",
            f"{1000 * one.held_over_run_s:.0f} ms",
        )
        for name, one in found.figures.by_class.items()
    ]  # fmt: skip
    headings = ("CLASS", "JOBS", "ADMITTED AFTER, MEAN", "MAX", "HELD OVER RUN TIME")
    output.table(headings, rows, right=headings[1:])


def _measured(plan: Plan) -> KueueReport:
    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, KueueReport]:
        return measure(plan, directory, say=say, progress=progress)

    return run_in_fresh_directory(run_once, total=plan.count)


def _rows(plan: Plan, found: KueueReport) -> list[tuple[str, str]]:
    figures = found.figures
    spent = ", ".join(f"{name} {cpu_s:.1f}" for name, cpu_s in found.cpu_s.items())
    return [
        ("rig", RIG),
        ("workload", f"{plan.count} jobs of Kueue's baseline test, {figures.succeeded} succeeded"),
        ("wall", f"{figures.wall_s:.1f} s from the first submission to the last end (floor {found.floor_s:.0f} s)"),
        ("rate", f"{figures.jobs_per_s:.1f} jobs/s"),
        (
            "CPU use",
            f"{figures.use_pct:.1f} % of the nominal quota, {figures.use_min_pct:.1f} % in the least used queue",
        ),
        ("preemptions", f"{figures.preemptions}"),
        ("memory", f"{found.rss_mib_max:.0f} MiB at most, all processes of the stack"),
        ("processor time", f"{spent} s"),
        ("generator", f"at most {found.late_s_max:.2f} s behind its pace"),
        ("to compare", KUEUE),
    ]
