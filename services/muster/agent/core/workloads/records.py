"""The log's record of one workload, from its request to the end of its job, and the facts about it."""

from dataclasses import dataclass

from muster.agent.core.workload_values import REASON_CHARS_MAX, Unfit, WorkloadPolicy, WorkloadView
from muster.core import Draft, Fact
from muster.schemas import ids
from muster.schemas.base import FACT_BYTES_MAX
from muster.schemas.facts import job as jobs
from muster.schemas.facts import workload as facts
from muster.schemas.facts.job_requests import JobHeld
from muster.schemas.facts.workload import (
    NODES_SHOWN_MAX,
    Standing,
    WorkloadState,
)
from muster.schemas.job import TERMINAL_PHASES, JobSpec, Phase

HELD = "held"
"""Reason of a job that a person holds."""
CHECKED = "preflight"
"""Reason of a placed job whose nodes are being checked."""


@dataclass(slots=True)
class Workload(WorkloadState):
    """An open workload."""

    @property
    def uid(self) -> str:
        """Return the object's uid."""
        return self.asked.origin.uid

    @property
    def job_id(self) -> str:
        """Return the job's id, even before it is accepted."""
        return self.asked.job_id

    @property
    def is_over(self) -> bool:
        """Return whether it is over; a refused one may still be submitted again."""
        return self.is_refused or self.standing.phase.is_terminal

    @property
    def is_refused(self) -> bool:
        """Return whether the last answer was a refusal."""
        return self.refused is not None and not self.asked_again

    @property
    def cause(self) -> str:
        """Return the newest fact that changed it."""
        return self.standing.last_fact or self.asked_fact


def moved(standing: Standing, fact: Fact) -> Standing | None:
    """Return the job's state after a fact; None if the fact shows nothing new."""
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
                "reason": "" if is_first else queued.shown_reason,
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
            return {"phase": Phase.STOPPING, "stopping": True, "reason": stop.shown_reason, "detail": stop.detail}
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


ASKED_BYTES_MAX = FACT_BYTES_MAX // 2
"""Size of a request in a fact, so that later facts with the whole job also fit."""


def submit_request(policy: WorkloadPolicy, view: WorkloadView, spec: JobSpec) -> Draft | Unfit:
    """Return `submit-requested`; Unfit if no fact can be that large."""
    job_id = policy.job_id(view.namespace, view.uid)
    trace = ids.traceparent(ids.trace_id(job_id), ids.span_id(job_id))
    asked = facts.WorkloadSubmitRequested(
        job_id=job_id,
        spec=spec,
        principal=ids.origin_principal(view.namespace),
        origin=view.ref(policy.cluster),
        trace=trace,
    )
    size = len(asked.model_dump_json())
    if size > ASKED_BYTES_MAX:
        reason = f"the job would be a fact of {size} bytes, and at most {ASKED_BYTES_MAX} can be"
        return Unfit(reason, field="spec", cure="Put long commands and variables into the image or a volume.")
    return Draft("workload", view.uid, "submit-requested", asked, trace=trace)


def rejection(policy: WorkloadPolicy, view: WorkloadView, unfit: Unfit) -> Draft:
    """Return `rejected` for an object that is not a valid job."""
    payload = facts.WorkloadRejected(
        origin=view.ref(policy.cluster),
        generation=view.generation,
        reason=unfit.reason[:REASON_CHARS_MAX],
        field=unfit.field[:REASON_CHARS_MAX],
        cure=unfit.cure[:REASON_CHARS_MAX],
    )
    return Draft("workload", view.uid, "rejected", payload)


def cancel(record: Workload, reason: str) -> Draft:
    """Return `cancel-requested` for an object that no longer wants its job."""
    payload = facts.WorkloadCancelRequested(
        job_id=record.job_id, principal=record.asked.principal, reason=reason[:REASON_CHARS_MAX]
    )
    return Draft("workload", record.uid, "cancel-requested", payload, (record.cause,), record.asked.trace)


def why_cancel(record: Workload, view: WorkloadView) -> str:
    """Return why an existing object no longer wants its job; "" if it does."""
    title, standing = record.asked.origin.title, record.standing
    if view.deleting:
        return f"{title} was deleted"
    is_started = standing.phase in (Phase.PLACED, Phase.RUNNING) and view.let_go_for == standing.attempt
    if view.suspended and is_started and not view.held:
        return f"{title} was suspended"
    if view.finished and standing.phase in (Phase.QUEUED, Phase.PLACED):
        return f"{title} has ended by itself"
    return ""


def settlement(record: Workload, *, is_gone: bool) -> Draft:
    """Return `settled`: the object shows how its job ended, or is gone."""
    reason = "the object is gone" if is_gone else "the object shows it"
    settled = facts.WorkloadSettled(job_id=record.job_id, reason=reason)
    return Draft("workload", record.uid, "settled", settled, (record.cause,), record.asked.trace)
