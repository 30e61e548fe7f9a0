"""What the log is told of workloads: each draft, and in words why."""

from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.records import Workload
from muster.agent.core.workloads.values import REASON_CHARS_MAX, Unfit, WorkloadView
from muster.core import Draft
from muster.schemas import ids
from muster.schemas.base import FACT_BYTES_MAX
from muster.schemas.facts import workload as facts
from muster.schemas.job import JobSpec, Phase

ASKED_BYTES_MAX = FACT_BYTES_MAX // 2
"""Of a wish as a fact. What becomes of it (the job, its state) holds it and more, and the log takes no larger facts."""


def wish(policy: WorkloadPolicy, view: WorkloadView, spec: JobSpec) -> Draft | Unfit:
    """The object asks for this job; Unfit: no fact can be that large."""
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
    """The object can be no job."""
    payload = facts.WorkloadRejected(
        origin=view.ref(policy.cluster),
        generation=view.generation,
        reason=unfit.reason[:REASON_CHARS_MAX],
        field=unfit.field[:REASON_CHARS_MAX],
        cure=unfit.cure[:REASON_CHARS_MAX],
    )
    return Draft("workload", view.uid, "rejected", payload)


def cancel(record: Workload, reason: str) -> Draft:
    """The object does not want its job any more."""
    payload = facts.WorkloadCancelRequested(
        job_id=record.job_id, principal=record.asked.principal, reason=reason[:REASON_CHARS_MAX]
    )
    return Draft("workload", record.uid, "cancel-requested", payload, (record.cause,), record.asked.trace)


def why_cancel(record: Workload, view: WorkloadView) -> str:
    """Why an object that is there does not want its job any more; "" if it does."""
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
    """Nothing more can come of the object: it shows how its job ended, or is gone."""
    reason = "the object is gone" if is_gone else "the object shows it"
    settled = facts.WorkloadSettled(job_id=record.job_id, reason=reason)
    return Draft("workload", record.uid, "settled", settled, (record.cause,), record.asked.trace)
