"""`muster bench surge`: runs it, and prints the figures."""

from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster_tools.bench.fresh_stack import Progress, Say, run_in_fresh_directory
from muster_tools.bench.surge import Plan, Round, measure

__all__ = ["Plan", "run"]


def run(plan: Plan, form: Output) -> None:
    """Measure and print. Raises CliError."""
    machine = this_machine()
    cold, warm = _measured(plan)
    if form is Output.JSON:
        output.emit_json(
            {
                **cold.document(),
                "warm": warm.document(),
                "nodes": plan.nodes,
                "workloads": plan.count,
                "rate": plan.rate,
                "machine": asdict(machine),
            }
        )
        return
    print_line(sentence(machine))
    rows: list[tuple[str, ...]] = list(zip(_NAMES, _cells(cold), _cells(warm), strict=True))
    rows += [
        (f"  {name}", f"{mib:.0f} MiB", f"{warm.rss_mib.get(name, 0.0):.0f} MiB") for name, mib in cold.rss_mib.items()
    ]
    output.table(("", "COLD", "WARM"), rows, right=("COLD", "WARM"))


def _measured(plan: Plan) -> tuple[Round, Round]:
    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, tuple[Round, Round]]:
        return measure(plan, directory, say=say, progress=progress)

    return run_in_fresh_directory(run_once, total=plan.count)


_NAMES = (
    "placed", "stranded", "first submit to last placed", "first submit to last running", "placed per second",
    "accepted per second", "submit to placed p50", "p99", "max", "messages in the logs", "memory",
)  # fmt: skip


def _cells(one: Round) -> tuple[str, ...]:
    waits = one.times.submit_to_placed_ms
    return (
        f"{one.times.placed}", f"{one.times.stranded}", f"{one.times.wall_placed_s:.2f} s",
        f"{one.times.wall_running_s:.2f} s", f"{one.times.placed_per_s:.0f}/s", f"{one.submit_per_s:.0f}/s",
        f"{waits.p50:.0f} ms", f"{waits.p99:.0f} ms", f"{waits.max:.0f} ms", f"{one.log_messages}",
        f"{sum(one.rss_mib.values()):.0f} MiB",
    )  # fmt: skip
