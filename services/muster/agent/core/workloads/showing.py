"""The state of its job on an object: a MusterJob's status, annotations of others, a condition of pods.

It follows from the log and the object, so repeated writes are equal. Events repeat it, few, and each once.
"""

import hashlib
from dataclasses import dataclass

from muster.agent.core.kubernetes.resources import rfc3339
from muster.agent.core.workload_values import REASON_CHARS_MAX, REFUSED, Unfit, WorkloadKind, WorkloadView
from muster.agent.core.workloads.objects import REJECTED, SUSPEND, said, tagged
from muster.agent.core.workloads.pod_gangs import camel_reason, said_by
from muster.agent.core.workloads.records import CHECKED, Workload
from muster.core import Instant
from muster.kube.objects import JsonObject
from muster.kube.workload_labels import ATTEMPT, GENERATION, HELD, JOB_ID, PHASE, POD_CONDITION, REASON
from muster.schemas.job import Phase

_ENDED_FROM_OUTSIDE = frozenset({Phase.CANCELLED, Phase.TIMED_OUT})
"""Ends that an object's controller cannot know. After other ends it must count its pods itself, unsuspended."""
_PLACED = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})


@dataclass(frozen=True, slots=True)
class Showing:
    """One write. `body` is a merge patch, strategic for pods. `said` is everything that it shows.

    `urgent` must be shown at once; while only the rest changes, writes are rare.
    """

    body: JsonObject
    subresource: str
    said: str
    urgent: str


def showing_of(record: Workload, view: WorkloadView) -> Showing:
    """Return the state to show on this object."""
    match view.kind:
        case WorkloadKind.MUSTER_JOB:
            return _in_status(_status(record, view.generation))
        case WorkloadKind.POD:
            return _in_condition(phase_of(record), why(record), job_id=record.job_id, is_good=record.refused is None)
        case _:
            return _in_annotations(record, view)


def rejection_of(unfit: Unfit, view: WorkloadView) -> Showing:
    """Return the state to show on a rejected object."""
    message = words(unfit.reason, unfit.field, unfit.cure)
    match view.kind:
        case WorkloadKind.MUSTER_JOB:
            condition = _condition("Accepted", "False", reason="Rejected", message=message, at=None)
            condition["lastTransitionTime"] = EPOCH
            status: JsonObject = {
                "observedGeneration": view.generation,
                "phase": REJECTED,
                "reason": unfit.field or REJECTED,
                "message": message,
                "conditions": [condition],
            }
            return _in_status(status)
        case WorkloadKind.POD:
            return _in_condition(REJECTED, message, job_id="", is_good=False)
        case _:
            notes: JsonObject = {PHASE: REJECTED, REASON: message, GENERATION: tagged(view.generation, view.uid)}
            return Showing({"metadata": {"annotations": notes}}, "", said(notes), REJECTED)


def waiting_of(view: WorkloadView, note: str) -> Showing:
    """Return the state to show on an object that asks for nothing yet, with the reason in `note`."""
    if view.kind is WorkloadKind.POD:
        return _in_condition(WAITING, note, job_id="", is_good=False)
    notes: JsonObject = {PHASE: WAITING, REASON: note}
    return Showing({"metadata": {"annotations": {**notes, GENERATION: None}}}, "", said(notes), WAITING)


AGAIN = "It is asked for again at {}, and as soon as it or its queue changes."
"""Hint on a refused object."""
WAITING = "waiting"
"""Phase of a pod of an incomplete gang, and of an object without the template of its claims."""
EPOCH = "1970-01-01T00:00:00Z"
"""Time of a rejection, which has no fact."""


def phase_of(record: Workload) -> str:
    """Return the phase to show."""
    return REFUSED if record.refused is not None else record.standing.phase.value


def why(record: Workload) -> str:
    """Return why it is in that phase; "" without a reason."""
    if record.refused is not None:
        told = words(record.refused.reason, record.refused.field, record.refused.cure)
        again = f" {AGAIN.format(rfc3339(record.again_at))}" if record.again_at else ""
        return f"{told[: REASON_CHARS_MAX - len(again)]}{again}"
    standing = record.standing
    if standing.phase in (Phase.PLACED, Phase.RUNNING):
        more = (
            f" and {standing.nodes_total - len(standing.nodes)} more"
            if standing.nodes_total > len(standing.nodes)
            else ""
        )
        is_checked = standing.phase is Phase.PLACED and standing.reason == CHECKED
        checked = ", which are checked before it begins" if is_checked else ""
        return f"on {', '.join(standing.nodes)}{more}{checked}"
    return ": ".join(part for part in (standing.reason, standing.detail) if part)


def words(reason: str, field: str, cure: str) -> str:
    """Return a refusal and its hint as one text."""
    told = f"{field}: {reason}" if field else reason
    return (f"{told.rstrip('.')}. {cure}" if cure else told)[:REASON_CHARS_MAX]


def let_go(kind: WorkloadKind, uid: str, *, job_id: str, attempt: int) -> JsonObject:
    """Return the merge patch that unsuspends the object of this uid for this attempt."""
    notes: JsonObject = {ATTEMPT: tagged(attempt, job_id), HELD: None}
    return _suspending({"metadata": {"uid": uid, "annotations": notes}}, kind, to=False)


def hold(kind: WorkloadKind, uid: str, *, job_id: str) -> JsonObject:
    """Return the merge patch that suspends the object."""
    return _suspending({"metadata": {"uid": uid, "annotations": {HELD: job_id}}}, kind, to=True)


def _suspending(body: JsonObject, kind: WorkloadKind, *, to: bool) -> JsonObject:
    inner: object = to
    for name in reversed(SUSPEND[kind][1:]):
        inner = {name: inner}
    return {**body, SUSPEND[kind][0]: inner}


def _in_status(status: JsonObject) -> Showing:
    """Return the patch of a status; removed fields are null."""
    absent: JsonObject = dict.fromkeys(_STATUS_FIELDS)
    urgent = said({key: status.get(key) for key in ("phase", "reason", "attempt", "nodes", "jobId")})
    return Showing({"status": {**absent, **status}}, "status", said(status), urgent)


_STATUS_FIELDS = (
    "observedGeneration", "jobId", "phase", "reason", "message", "queue", "gpus", "attempt", "nodes", "nodesTotal",
    "exitCode", "queuedAt", "startedAt", "endedAt", "conditions",
)  # fmt: skip


def _status(record: Workload, generation: int) -> JsonObject:
    standing = record.standing
    refused = record.refused
    milli = record.asked.spec.gpu_milli_total
    return {
        "observedGeneration": generation,
        "jobId": record.job_id,
        "phase": phase_of(record),
        "reason": (refused.field or REFUSED) if refused is not None else standing.reason or None,
        "message": why(record) or None,
        "queue": standing.queue or record.asked.spec.queue_name,
        "gpus": f"{milli / 1000:g}",
        "attempt": standing.attempt or None,
        "nodes": list(standing.nodes) or None,
        "nodesTotal": standing.nodes_total or None,
        "exitCode": standing.exit_code if standing.ended_at else None,
        "queuedAt": rfc3339(standing.queued_at),
        "startedAt": rfc3339(standing.started_at),
        "endedAt": rfc3339(standing.ended_at),
        "conditions": _conditions(record),
    }


def _conditions(record: Workload) -> list[JsonObject]:
    standing, refused = record.standing, record.refused
    if refused is not None:
        return [_condition("Accepted", "False", reason="Refused", message=why(record), at=record.asked_at)]
    if not standing.accepted:
        waits = "the gateway has not answered yet"
        return [_condition("Accepted", "Unknown", reason="Submitted", message=waits, at=record.asked_at)]
    conditions = [_condition("Accepted", "True", reason="Accepted", message=record.job_id, at=standing.accepted_at)]
    is_placed = standing.phase in _PLACED
    reason = camel_reason(standing.reason or standing.phase.value)
    if not standing.phase.is_terminal:
        since = standing.placed_at if is_placed else standing.queued_at or standing.accepted_at
        placed = _condition("Placed", str(is_placed), reason=reason, message=why(record), at=since)
        conditions.append(placed)
    else:
        reason = camel_reason(standing.phase.value)
        conditions.append(_condition("Finished", "True", reason=reason, message=why(record), at=standing.ended_at))
    return conditions


def _condition(kind: str, status: str, *, reason: str, message: str, at: int | None) -> JsonObject:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(at or 0) or EPOCH,
    }


def _in_annotations(record: Workload, view: WorkloadView) -> Showing:
    phase = phase_of(record)
    shown: JsonObject = {JOB_ID: record.job_id, PHASE: phase, REASON: why(record) or None}
    notes: JsonObject = {**shown, GENERATION: None}
    body: JsonObject = {"metadata": {"annotations": notes}}
    if record.standing.phase in _ENDED_FROM_OUTSIDE and not (view.finished or view.suspended):
        notes[HELD] = record.job_id  # else its controller continues to create pods that are never placed
        body = _suspending(body, view.kind, to=True)
    return Showing(body, "", said(shown), said({JOB_ID: record.job_id, PHASE: phase, REASON: record.standing.reason}))


def _in_condition(phase: str, told: str, *, job_id: str, is_good: bool) -> Showing:
    message = f"{job_id}: {told}" if job_id and told else job_id or told
    reason = camel_reason(phase)
    conditions: list[JsonObject] = [
        {"type": POD_CONDITION, "status": str(is_good), "reason": reason, "message": message}
    ]
    if phase in (Phase.SUBMITTED, Phase.QUEUED, REFUSED, REJECTED, WAITING):
        conditions.append(
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": told or "it waits in its queue",
            }
        )
    return Showing({"status": {"conditions": conditions}}, "status", said_by(phase, message), f"{phase} {told[:24]}")


COMPONENT = "muster-agent"
NAME_CHARS_MAX = 200
MESSAGE_CHARS_MAX = 1024
_GOOD = frozenset({Phase.QUEUED.value, Phase.PLACED.value, Phase.SUCCEEDED.value})
_TOLD = _GOOD | {
    Phase.STOPPING.value, Phase.FAILED.value, Phase.CANCELLED.value, Phase.TIMED_OUT.value, REFUSED, REJECTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class News:
    """One event; equal keys are the same event."""

    key: str
    reason: str
    message: str
    is_good: bool


def news_of(record: Workload) -> News | None:
    """Return the event of the job's state; None if it needs none (it still waits, it runs)."""
    phase, standing = phase_of(record), record.standing
    if phase not in _TOLD:
        return None
    is_short = phase == Phase.QUEUED and bool(standing.reason)
    reason = standing.reason if is_short or standing.stopping else phase
    return News(
        key=f"{record.uid}/{standing.attempt}/{phase}/{standing.reason if is_short else ''}",
        reason=camel_reason(reason or phase),
        message=(why(record) or f"job {record.job_id} in queue {standing.queue}")[:MESSAGE_CHARS_MAX],
        is_good=phase in _GOOD and not is_short,
    )


def rejection_news(unfit: Unfit, view: WorkloadView) -> News:
    """Return the event of a rejected object."""
    message = words(unfit.reason, unfit.field, unfit.cure)
    return News(f"{view.uid}/{view.generation}/{REJECTED}", "Rejected", message, is_good=False)


def event(news: News, view: WorkloadView, *, now: Instant, name: str = "", uid: str = "") -> JsonObject:
    """Return an Event (core/v1) about the object, or about another object of its namespace (`name`, `uid`)."""
    at = rfc3339(now)
    about = name or view.name
    digest = hashlib.sha256(news.key.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about[:NAME_CHARS_MAX]}.{digest}", "namespace": view.namespace},
        "involvedObject": {
            "apiVersion": view.api_version,
            "kind": view.kind.value,
            "namespace": view.namespace,
            "name": about,
            "uid": uid or view.uid,
        },
        "type": "Normal" if news.is_good else "Warning",
        "reason": news.reason,
        "message": news.message,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }
