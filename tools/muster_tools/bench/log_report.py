"""`muster bench log`: runs it, and prints the figures."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import uvloop

from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import measured
from muster_tools.bench.log import LogFigures, measure, own_server

HEADINGS = ("STORED", "BATCH OF 500 p50", "p99", "APPENDED/s", "SINGLE p50", "p99", "FOLDED/s", "PER FACT")


def run(levels: Sequence[int], form: Output) -> None:
    """Measure at each level and print."""
    machine = this_machine()
    found = uvloop.run(_measured(levels))
    if form is Output.JSON:
        output.emit_json({"levels": [asdict(one) for one in found], "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.table(HEADINGS, map(_row, found), right=HEADINGS)


async def _measured(levels: Sequence[int]) -> list[LogFigures]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, measured("stored", total=max(levels)) as reached:
        directory = Path(name)
        async with own_server(directory) as client:
            return await measure(client, directory, levels, reached)


def _row(one: LogFigures) -> tuple[str, ...]:
    return (
        f"{one.stored:,}", f"{one.batch_ms.p50:.1f} ms", f"{one.batch_ms.p99:.1f} ms", f"{one.appended_per_s:,.0f}",
        f"{one.single_ms.p50:.2f} ms", f"{one.single_ms.p99:.2f} ms", f"{one.folded_per_s:,.0f}",
        f"{one.fold_us_per_fact:.0f} us",
    )  # fmt: skip
