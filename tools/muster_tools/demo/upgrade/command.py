"""`muster demo upgrade`: a fleet full of week-long jobs is upgraded in virtual time, by a campaign and manually."""

from dataclasses import asdict, dataclass

from pydantic import JsonValue

from muster.cli import moments, output
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import measured
from muster.schemas.facts.node import RunningJobs
from muster_tools.demo.upgrade.run import Outcome, campaign, drained_by_hand, left_alone, upgraded_in_turns
from muster_tools.demo.upgrade.scene import GPUS, Scene

HEADINGS = ("WAY", "TAKES", "KILLED", "LOST_GPU_H", "DONE_AGAIN", "IDLE", "OUT_OF_USE", "UPGRADED")
RIGHT = frozenset(HEADINGS[2:])
DAYS = 8.0
"""Approximate duration of a campaign in virtual days: that of the longest job."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One run, compared with the same days without an upgrade. idle_gpu_h: in excess of those days."""

    outcome: Outcome
    idle_gpu_h: float

    @property
    def lost_gpu_h(self) -> float:
        """Return repeated work and additional idle GPU time."""
        return self.outcome.redone_gpu_h + self.idle_gpu_h


def run(form: Output, *, nodes: int, max_unavailable: str) -> None:
    """Run both and print their cost. Raises CliError (refused) if a job was killed or a node was not upgraded."""
    scene = Scene(nodes=nodes)
    spec = campaign(scene, max_unavailable=max_unavailable)
    with measured("virtual days", total=DAYS) as reached:
        mine = upgraded_in_turns(scene, spec, reached=lambda _, days: reached(min(days, DAYS)))
    naive = drained_by_hand(scene, spec, running=RunningJobs.REQUEUE)
    rows = [_compared(scene, mine), _compared(scene, naive)]
    if form is Output.JSON:
        output.emit_json({"nodes": nodes, "ways": [_as_json(row) for row in rows]})
    else:
        print_line(f"{nodes} nodes of {GPUS} GPUs, full of jobs of up to a week; {max_unavailable} may be out of use.")
        output.table(HEADINGS, map(_row, rows), right=RIGHT)
    if mine.killed or mine.took_s is None or mine.upgraded != nodes:
        raise refused(f"{mine.killed} jobs were killed, {mine.upgraded} of {nodes} nodes were upgraded")


def _compared(scene: Scene, outcome: Outcome) -> Compared:
    alone = left_alone(scene, for_s=outcome.took_s) if outcome.took_s is not None else 0.0
    return Compared(outcome, max(0.0, outcome.idle_gpu_h - alone))


def _row(one: Compared) -> tuple[str, ...]:
    outcome = one.outcome
    return (
        outcome.name,
        moments.long(outcome.took_s) if outcome.took_s is not None else "not done",
        str(outcome.killed),
        f"{one.lost_gpu_h:,.0f}",
        f"{outcome.redone_gpu_h:,.0f}",
        f"{one.idle_gpu_h:,.0f}",
        str(outcome.nodes_out),
        str(outcome.upgraded),
    )


def _as_json(one: Compared) -> dict[str, JsonValue]:
    rounded: dict[str, JsonValue] = {
        name: round(value, 1) if isinstance(value, float) else value for name, value in asdict(one.outcome).items()
    }
    return rounded | {"idle_gpu_h": round(one.idle_gpu_h, 1), "lost_gpu_h": round(one.lost_gpu_h, 1)}
