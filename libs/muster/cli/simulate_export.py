"""The running stack as a scenario: printed by `muster simulate export`, the start of `--from-cluster`."""

from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import JsonValue

from muster.bus.clock import SystemTime
from muster.cli.output import print_lines
from muster.cli.session import call
from muster.simulator.live import scenario_of

if TYPE_CHECKING:
    from muster.client import Muster

JOBS_MAX = 200_000
"""Live jobs that are read, newest first: as many as a scenario may have."""


def run(state_dir: Path) -> None:
    """Print it as YAML. Raises CliError if nobody answers."""
    print_lines(yaml.safe_dump(snapshot(state_dir), sort_keys=False, default_flow_style=None, width=160))


def snapshot(state_dir: Path) -> dict[str, JsonValue]:
    """Nodes, queues, live jobs and reservations of the stack, as a scenario's content. Raises CliError."""

    async def ask(muster: "Muster") -> dict[str, JsonValue]:
        nodes, queues = await muster.nodes(), await muster.queues()
        jobs = await muster.list(live_only=True, limit=JOBS_MAX)
        kept = [view.spec for view in await muster.reservations()]
        now_ns = SystemTime().wall()
        return scenario_of(nodes=nodes, queues=queues, jobs=jobs, reservations=kept, now_ns=now_ns)

    return call(state_dir, ask)
