"""Turn observations into drafts, and the agent's state into state facts."""

from collections.abc import Iterator, Mapping

from muster.agent.core.cluster import (
    CheckpointSeen,
    ChecksSeen,
    ClusterSeen,
    NodeClosedSeen,
    NodeLeftSeen,
    NodeLostSeen,
    NodeObservation,
    NodeOpenSeen,
    NodeReturnedSeen,
    NodeSeen,
    Observation,
    PodsExitedSeen,
    PodsResizedSeen,
    PodsStartedSeen,
    ProvisionFailedSeen,
    WordSeen,
    WorkSeen,
)
from muster.agent.core.node_work import Work
from muster.agent.core.state import JobRecord, NodeRecord, ScaleRecord
from muster.core import Draft
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobCheckpointed, PodsResized, PodsStarted, PodsState
from muster.schemas.facts.node import (
    GroupState,
    NodeLeft,
    NodeLost,
    NodeReturned,
    NodeState,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.operations import ChecksReported, NodeActionEnded
from muster.schemas.facts.scale import ProvisionFailed
from muster.schemas.registry import STATE_NAME

CLOSED = "closed"
"""Request id under which a node is drained that is cordoned, or tainted against all pods."""


def draft_of(
    seen: Observation,
    *,
    jobs: Mapping[str, JobRecord],
    nodes: Mapping[str, NodeRecord],
    scales: Mapping[str, ScaleRecord],
    work: Mapping[tuple[str, str], Work],
) -> Draft:
    """Return the fact of an observation, with the trace of its job and the fact that caused it."""
    match seen:
        case PodsStartedSeen():
            started = PodsStarted(attempt=seen.attempt, device_uuids=seen.device_uuids)
            return _of_job(seen.job_id, "pods-started", started, jobs)
        case PodsExitedSeen():
            return _of_job(seen.job_id, "pods-exited", seen.exited, jobs)
        case WordSeen():
            return Draft(seen.kind, seen.subject, seen.name, seen.payload)
        case CheckpointSeen():
            return _of_job(seen.job_id, "checkpointed", JobCheckpointed(attempt=seen.attempt), jobs)
        case PodsResizedSeen():
            resized = PodsResized(attempt=seen.attempt, slots=seen.slots)
            return _of_job(seen.job_id, "pods-resized", resized, jobs)
        case ChecksSeen():
            found = ChecksReported(attempt=seen.attempt, results=seen.results, is_last=seen.is_last)
            return _of_job(seen.job_id, "checks-reported", found, jobs)
        case WorkSeen():
            asked = work[seen.node, seen.request_id]
            name = "action-ended" if isinstance(seen.ended, NodeActionEnded) else "checks-reported"
            return Draft("node", seen.node, name, seen.ended, causes=(asked.fact,), trace=asked.trace)
        case ClusterSeen():
            return Draft("cluster", seen.cluster, "described", seen.description)
        case _:
            return _of_node(seen, nodes.get(seen.node), scales)


def state_drafts(
    *,
    nodes: Mapping[str, NodeRecord],
    jobs: Mapping[str, JobRecord],
    scales: Mapping[str, ScaleRecord],
    removed: Mapping[str, str],
) -> Iterator[Draft]:
    """Yield the agent's part of a checkpoint: nodes, and attempts of unfinished jobs.

    `removed` has the group of each initial node that was removed.
    """
    for name, node in nodes.items():
        yield Draft("node", name, STATE_NAME, node.as_body(NodeState))
    for job_id, job in jobs.items():
        if job.attempt:
            yield Draft("job", job_id, STATE_NAME, _pods_state(job_id, job), trace=job.trace)
    failed = {scale_id: scale.group for scale_id, scale in scales.items() if scale.failed}
    for group in sorted({*removed.values(), *failed.values()}):
        state = GroupState(removed=_names_of(group, removed), failed=_names_of(group, failed))
        yield Draft("group", group, STATE_NAME, state)


def _names_of(group: str, groups: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, of in groups.items() if of == group))


def _of_job(job_id: str, name: str, payload: Payload, jobs: Mapping[str, JobRecord]) -> Draft:
    pods = jobs[job_id].pods
    assert pods is not None, "a cluster shows only pods that it was asked for"
    cause = pods.resize_fact if name == "pods-resized" else pods.last_fact
    return Draft("job", job_id, name, payload, causes=(cause,) if cause else (), trace=pods.trace)


def _of_node(seen: NodeObservation, node: NodeRecord | None, scales: Mapping[str, ScaleRecord]) -> Draft:
    cause, trace = (node.last_fact, node.trace) if node is not None else ("", "")
    name: str
    payload: Payload
    match seen:
        case NodeSeen():
            return _joined(seen, node, scales)
        case NodeLostSeen():
            name, payload = "lost", NodeLost(reason=seen.reason)
        case NodeReturnedSeen():
            name, payload = "returned", NodeReturned()
        case NodeLeftSeen():
            name, payload = "left", NodeLeft(reason=seen.reason)
        case NodeClosedSeen():
            name, payload = "withhold-requested", WithholdRequested(request_id=CLOSED, reason=seen.reason)
        case NodeOpenSeen():
            answered = node is not None and node.is_withheld
            name, payload = "withhold-withdrawn", WithholdWithdrawn(request_id=CLOSED, after_withheld=answered)
        case ProvisionFailedSeen():
            name, payload = "provision-failed", ProvisionFailed(scale=seen.scale, group=seen.group, reason=seen.reason)
            cause, trace = _why(seen.scale, scales)
    return Draft("node", seen.node, name, payload, causes=(cause,) if cause else (), trace=trace)


def _joined(seen: NodeSeen, node: NodeRecord | None, scales: Mapping[str, ScaleRecord]) -> Draft:
    if node is None:
        cause, trace = _why(seen.description.scale, scales)
    else:
        cause, trace = node.last_fact, node.trace
    return Draft("node", seen.node, "joined", seen.description, causes=(cause,) if cause else (), trace=trace)


def _why(scale_id: str, scales: Mapping[str, ScaleRecord]) -> tuple[str, str]:
    """Return the scaler's fact that caused it, and that fact's trace."""
    scale = scales.get(scale_id)
    return (scale.fact, scale.trace) if scale is not None else ("", "")


def _pods_state(job_id: str, job: JobRecord) -> PodsState:
    if job.pods is None:
        return PodsState(job.attempt, job_id, exited=True, resumed_s=job.kept_s)
    body = job.pods.as_body(PodsState)
    if not body.resize_fact:
        body.slots = ()  # they are in the job's own state
    return body
