"""What the log says of one workload, from the wish to the end of its job."""

from dataclasses import dataclass

from muster.core import Fact
from muster.schemas.facts import job as jobs
from muster.schemas.facts.job_wishes import JobHeld
from muster.schemas.facts.workload import (
    NODES_SHOWN_MAX,
    Standing,
    WorkloadState,
)
from muster.schemas.job import TERMINAL_PHASES, Phase

HELD = "held"
"""Reason of a job that waits because somebody asked for it."""
CHECKED = "preflight"
"""Reason of a job that is placed and does nothing yet: its nodes are checked."""


@dataclass(slots=True)
class Workload(WorkloadState):
    """A workload that is not settled."""

    @property
    def uid(self) -> str:
        """Of the object."""
        return self.asked.origin.uid

    @property
    def job_id(self) -> str:
        """Of its job, also before it is accepted."""
        return self.asked.job_id

    @property
    def is_over(self) -> bool:
        """Nothing more will come of it, unless a refused one is asked for again."""
        return self.is_refused or self.standing.phase.is_terminal

    @property
    def is_refused(self) -> bool:
        """The last answer was no."""
        return self.refused is not None and not self.asked_again

    @property
    def cause(self) -> str:
        """The newest fact that moved it."""
        return self.standing.last_fact or self.asked_fact


def moved(standing: Standing, fact: Fact) -> Standing | None:
    """Where the job stands after a fact about it; None if the fact shows nothing new of it."""
    changes = _changes(fact)
    return None if changes is None else standing.model_copy(update={**changes, "last_fact": fact.id})


def _changes(fact: Fact) -> dict[str, object] | None:
    match fact.payload:
        case jobs.JobRouted():
            return {"accepted": True, "accepted_at": fact.time}
        case jobs.JobQueued() as queued:
            is_first = queued.reason is jobs.QueuedReason.SUBMITTED
            return {
                "phase": Phase.QUEUED,
                "queue": queued.queue,
                "attempt": queued.attempt,
                "queued_at": fact.time,
                "reason": "" if is_first else queued.reason.value,
                "detail": queued.detail,
                "nodes": (),
                "nodes_total": 0,
                "stopping": False,
            }
        case jobs.JobUnschedulable() as short:
            return {"reason": short.reason, "detail": short.detail}
        case jobs.JobPlaced() as placed:
            nodes = tuple(dict.fromkeys(slot.node for slot in placed.slots))
            return {
                "phase": Phase.PLACED,
                "attempt": placed.attempt,
                "nodes": nodes[:NODES_SHOWN_MAX],
                "nodes_total": len(nodes),
                "placed_at": fact.time,
                "reason": CHECKED if placed.preflight is not None else "",
                "detail": "",
            }
        case jobs.JobRunning():
            return {"phase": Phase.RUNNING, "started_at": fact.time, "reason": "", "detail": ""}
        case jobs.JobStopRequested() as stop:
            return {"phase": Phase.STOPPING, "stopping": True, "reason": stop.reason.value, "detail": stop.detail}
        case JobHeld() as held:
            return {"reason": HELD if fact.name == "held" else "", "detail": held.reason if fact.name == "held" else ""}
        case jobs.JobFinished() as end if fact.name in TERMINAL_PHASES:
            return {
                "phase": Phase(fact.name),
                "reason": end.reason,
                "detail": "",
                "exit_code": end.exit_code,
                "ended_at": fact.time,
                "stopping": False,
            }
        case _:
            return None
