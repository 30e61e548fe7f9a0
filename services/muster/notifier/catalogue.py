"""The events that webhooks can select, by name: their facts, body, and chat text. Pure.

A new event is a new row of `EVENTS`.
"""

from collections.abc import Collection

from muster.core.fact import Fact
from muster.core.instant import seconds_between
from muster.notifier.events import AnyEvent, ChatText, EventSource, EventType, payload_of, rfc3339, rows, span, trace_id
from muster.notifier.limits import JOBS_LOOKED_UP_MAX
from muster.notifier.story import JobStory
from muster.schemas.facts.federation import ClusterMoved
from muster.schemas.facts.health import BrakeTripped, HealthMoved
from muster.schemas.facts.job import JobFinished
from muster.schemas.facts.operations import JobFault
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.facts.upgrade import CampaignAccepted, CampaignChanged, CampaignEnded, CampaignStopped
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName, fact_subject
from muster.schemas.webhooks import (
    DEVICES_MAX,
    JOBS_MAX,
    NODES_MAX,
    PARTS_MAX,
    CampaignTold,
    ClusterChanged,
    HardwareChanged,
    JobEnded,
    JobFaulted,
    ScaleDecided,
    ServedJob,
)

_WORDS = {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled", "timed-out": "ran out of time"}
_JOB_MOODS = {"succeeded": "good", "failed": "bad", "timed-out": "bad"}


def _job_ended_body(source: EventSource) -> JobEnded:
    fact, finished = source.fact, payload_of(source.fact, JobFinished)
    story = source.jobs.get(fact.subject_id) or JobStory(id=fact.subject_id, name="", team="")
    nodes = story.nodes if story.placed_attempt == finished.attempt else ()
    started_at = story.started_at if story.run_attempt == finished.attempt else 0
    total_s = seconds_between(story.submitted_at, fact.time) if story.submitted_at else finished.ran_s
    return JobEnded(
        job_id=fact.subject_id,
        name=story.name,
        team=story.team,
        queue=story.queue,
        principal=story.principal,
        cluster=fact.cluster,
        phase=fact.name,
        reason=finished.reason,
        exit_code=finished.exit_code,
        attempt=finished.attempt,
        gpus=story.gpu_milli / 1000,
        nodes=nodes[:NODES_MAX],
        nodes_total=len(nodes),
        submitted_at=rfc3339(story.submitted_at),
        started_at=rfc3339(started_at),
        ended_at=rfc3339(fact.time),
        waited_s=round(max(0.0, total_s - finished.ran_s), 3),
        ran_s=round(finished.ran_s, 3),
        total_s=round(max(0.0, total_s), 3),
        trace_id=trace_id(source.trace),
        url=source.url(f"/jobs/{fact.subject_id}"),
    )


def _job_ended_words(ended: JobEnded) -> ChatText:
    where = ", ".join(ended.nodes[:3]) + (f" and {ended.nodes_total - 3} more" if ended.nodes_total > 3 else "")
    lines = (
        ("Team", ended.team),
        ("Queue", ended.queue),
        ("GPUs", f"{ended.gpus:g}" if ended.gpus else ""),
        ("Ran", span(ended.ran_s)),
        ("Waited", span(ended.waited_s)),
        ("Nodes", where),
        ("Exit code", str(ended.exit_code) if ended.phase == "failed" else ""),
        ("Attempt", str(ended.attempt) if ended.attempt > 1 else ""),
    )
    return ChatText(
        title=f"{ended.name or ended.job_id} {_WORDS.get(ended.phase, ended.phase)}",
        mood=_JOB_MOODS.get(ended.phase, "plain"),
        lines=lines,
    )


JOB_ENDED = EventType(
    name="job-ended",
    what="a job reached its end: it succeeded, failed, was cancelled or ran out of time",
    facts=(
        *rows(StreamRole.LOG, "scheduler", "job", "succeeded", "failed", "cancelled", "timed-out"),
        *rows(StreamRole.FED, "federation", "job", "cancelled"),  # of a job that never reached a cluster
    ),
    jobs=lambda fact: (fact.subject_id,),
    body=_job_ended_body,
    words=_job_ended_words,
    whole=True,
)


_VERBS = {
    "gpu-attach-chosen": "Attach",
    "node-add-chosen": "Add",
    "gpu-remove-chosen": "Give back",
    "node-remove-chosen": "Remove",
}


def _scale_body(source: EventSource) -> ScaleDecided:
    fact, chosen = source.fact, payload_of(source.fact, ScaleChosen)
    own = (job_id for job_id in chosen.jobs if job_id not in source.foreign)
    jobs = tuple(job for job in (_served(source, job_id) for job_id in own) if job is not None)
    return ScaleDecided(
        choice_id=fact.subject_id,
        choice=fact.name,
        cluster=fact.cluster,
        group=chosen.group,
        node=chosen.node,
        device_model=chosen.device_model,
        count=chosen.count,
        reason=chosen.reason,
        jobs=jobs[:JOBS_MAX],
        jobs_total=len(jobs),
        parts=chosen.parts[:PARTS_MAX],
        devices=chosen.devices[:DEVICES_MAX],
        alternatives=chosen.alternatives,
        watts=chosen.watts,
        ready_s=chosen.ready_s,
        chosen_at=rfc3339(fact.time),
        trace_id=trace_id(fact.trace),
        url=source.url("/scale"),
    )


def _scale_words(decided: ScaleDecided) -> ChatText:
    jobs = ", ".join(job.name or job.job_id for job in decided.jobs[:3])
    if decided.jobs_total > 3:
        jobs += f" and {decided.jobs_total - 3} more"
    lines = (
        ("For", jobs),
        ("Group", decided.group),
        ("Ready in", f"about {span(decided.ready_s)}" if decided.ready_s else ""),
        ("Power", f"{decided.watts:+.0f} W" if decided.watts else ""),
        ("Also weighed", str(sum(not one.chosen for one in decided.alternatives) or "")),
    )
    return ChatText(
        title=f"{_VERBS.get(decided.choice, decided.choice)} {_scale_title(decided)}",
        lines=lines,
    )


def _scale_title(decided: ScaleDecided) -> str:
    if decided.choice.startswith("node-"):
        return f"node {decided.node}" if decided.node else f"a node of group {decided.group}"
    gpus = f"{decided.count} {decided.device_model} GPU{'' if decided.count == 1 else 's'}".replace("  ", " ")
    nodes = tuple(dict.fromkeys(part.node for part in decided.parts)) or ((decided.node,) if decided.node else ())
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    if not nodes:
        return gpus
    return f"{gpus} {'from' if decided.choice == 'gpu-remove-chosen' else 'to'} {where}"


def _served(source: EventSource, job_id: str) -> ServedJob | None:
    """Return the job as far as known; None if its team is not among the recipients of the message."""
    story = source.jobs.get(job_id)
    if source.teams and (story is None or story.team not in source.teams):
        return None
    return ServedJob(job_id=job_id) if story is None else ServedJob(job_id=job_id, name=story.name, team=story.team)


SCALE_CHOSEN = EventType(
    name="scale-chosen",
    what="GPUs or a node are to be added or taken away",
    facts=rows(
        StreamRole.LOG, "scaler", "scale",
        "gpu-attach-chosen", "node-add-chosen", "gpu-remove-chosen", "node-remove-chosen",
    ),
    jobs=lambda fact: payload_of(fact, ScaleChosen).jobs[:JOBS_LOOKED_UP_MAX],
    body=_scale_body,
    words=_scale_words,
)  # fmt: skip


_PERSON = "needs-person"
_TITLES = {
    "quarantined": "is out of use",
    "healthy": "is back in use",
    _PERSON: "needs a person",
    "brake-tripped": "stopped: too much looks broken",
}
_HARDWARE_MOODS = {"healthy": "good", _PERSON: "bad", "brake-tripped": "bad"}


def _hardware_body(source: EventSource) -> HardwareChanged:
    fact, payload = source.fact, source.fact.payload
    if isinstance(payload, BrakeTripped):
        return HardwareChanged(
            what=fact.name,
            kind="brake",
            cluster=fact.cluster,
            reason=payload.because,
            changed_at=rfc3339(fact.time),
            url=source.url("/health"),
        )
    assert isinstance(payload, HealthMoved), f"{fact.name} is no state of hardware"
    return HardwareChanged(
        what=_PERSON if payload.needs_person else fact.name,
        kind=fact.kind,
        node=payload.node,
        device=fact.subject_id if fact.kind == "device" else "",
        cluster=fact.cluster,
        codes=payload.codes,
        reason=payload.because,
        attempts=payload.attempt,
        lasted_s=round(payload.lasted_s, 3),
        changed_at=rfc3339(fact.time),
        url=source.url("/health"),
    )


def _hardware_words(changed: HardwareChanged) -> ChatText:
    whom = (
        "Health"
        if changed.kind == "brake"
        else f"{changed.device} of {changed.node}"
        if changed.device
        else changed.node
    )
    lines = (
        ("Faults", ", ".join(changed.codes)),
        ("Attempts", str(changed.attempts) if changed.attempts else ""),
        ("Lasted", span(changed.lasted_s) if changed.lasted_s else ""),
    )
    return ChatText(
        title=f"{whom} {_TITLES.get(changed.what, changed.what)}",
        mood=_HARDWARE_MOODS.get(changed.what, "plain"),
        lines=lines,
    )


def _fault_body(source: EventSource) -> JobFaulted:
    fact, fault = source.fact, payload_of(source.fact, JobFault)
    story = source.jobs.get(fact.subject_id) or JobStory(id=fact.subject_id, name="", team=fault.team)
    return JobFaulted(
        job_id=fact.subject_id,
        name=story.name,
        team=story.team,
        cluster=fact.cluster,
        code=fault.code,
        node=fault.node,
        device=fault.device,
        reason=fault.detail,
        faulted_at=rfc3339(fault.at or fact.time),
        trace_id=trace_id(source.trace),
        url=source.url(f"/jobs/{fact.subject_id}"),
    )


def _fault_words(fault: JobFaulted) -> ChatText:
    lines = (("Code", fault.code), ("Node", fault.node), ("GPU", fault.device), ("Team", fault.team))
    return ChatText(
        title=f"{fault.name or fault.job_id} faulted on a GPU",
        lines=lines,
    )


HARDWARE_CHANGED = EventType(
    name="hardware-changed",
    what="a node or GPU was taken out of use, needs a person, or is back; or health stopped itself",
    facts=(
        *rows(StreamRole.LOG, "health", "node", "quarantined", "healthy"),
        *rows(StreamRole.LOG, "health", "device", "quarantined", "healthy"),
        *rows(StreamRole.LOG, "health", "health", "brake-tripped"),
    ),
    body=_hardware_body,
    words=_hardware_words,
)
JOB_FAULT = EventType(
    name="job-fault",
    what="a job's own program faulted on a GPU",
    facts=rows(StreamRole.LOG, "health", "job", "fault-told"),
    jobs=lambda fact: (fact.subject_id,),
    body=_fault_body,
    words=_fault_words,
)


_CAMPAIGN_TITLES = {
    "accepted": "has started",
    "stopped": "stopped: look at it",
    "aborted": "was aborted",
    "ended": "is over",
}


def _campaign_body(source: EventSource) -> CampaignTold:
    fact = source.fact
    known = {
        "what": fact.name,
        "campaign": fact.subject_id,
        "cluster": fact.cluster,
        "changed_at": rfc3339(fact.time),
        "url": source.url("/campaigns"),
    }
    return CampaignTold.model_validate({**known, **_campaign_details(fact)})


def _campaign_words(changed: CampaignTold) -> ChatText:
    lines = (
        ("Upgrades", changed.component),
        ("Nodes", str(changed.nodes) if changed.nodes else ""),
        ("Done", str(changed.done) if changed.what == "ended" else ""),
        ("Failed", ", ".join(changed.failed_nodes) or (str(changed.failed) if changed.failed else "")),
        ("Took", span(changed.took_s) if changed.took_s else ""),
        ("Lost", f"{changed.gpu_hours_lost:,.1f} GPU-hours" if changed.what == "ended" else ""),
        ("By", changed.principal),
    )
    is_bad = changed.what == "stopped" or bool(changed.failed)
    return ChatText(
        title=f"Campaign {changed.campaign} {_CAMPAIGN_TITLES.get(changed.what, changed.what)}",
        mood="bad" if is_bad else "good" if changed.what == "ended" else "plain",
        lines=lines,
    )


def _campaign_details(fact: Fact) -> dict[str, object]:
    match fact.payload:
        case CampaignAccepted(spec=spec, principal=principal, nodes=nodes):
            component = f"{spec.component.value} {spec.version}".strip()
            return {"component": component, "principal": principal, "nodes": nodes, "reason": spec.reason}
        case CampaignStopped(reason=reason, failed=failed):
            return {"reason": reason, "failed": len(failed), "failed_nodes": failed}
        case CampaignChanged(reason=reason, principal=principal):
            return {"reason": reason, "principal": principal}
        case CampaignEnded() as ended:
            return {
                "reason": ended.reason,
                "done": ended.done,
                "failed": ended.failed,
                "failed_nodes": ended.failed_nodes,
                "took_s": round(ended.took_s, 3),
                "gpu_hours_lost": ended.gpu_hours_lost,
            }
        case other:
            raise AssertionError(f"{fact.name} with {type(other).__name__} is nothing that campaigns say")


CAMPAIGN_CHANGED = EventType(
    name="campaign-changed",
    what="an upgrade campaign began, stopped by itself, was aborted, or is over",
    facts=rows(StreamRole.LOG, "upgrader", "campaign", "accepted", "stopped", "aborted", "ended"),
    body=_campaign_body,
    words=_campaign_words,
)


_CLUSTER_TITLES = {
    "draining": "is being drained",
    "drained": "is drained",
    "resumed": "gets jobs again",
    "lost": "is given up",
    "returned": "is back",
}
_CLUSTER_MOODS = {"lost": "bad", "returned": "good", "resumed": "good"}


def _cluster_body(source: EventSource) -> ClusterChanged:
    fact, moved = source.fact, payload_of(source.fact, ClusterMoved)
    return ClusterChanged(
        what=fact.name,
        cluster=fact.subject_id,
        principal=moved.principal,
        reason=moved.reason,
        to=moved.to,
        jobs=moved.jobs,
        changed_at=rfc3339(fact.time),
        url=source.url("/clusters"),
    )


def _cluster_words(changed: ClusterChanged) -> ChatText:
    lines = (
        ("Jobs there", str(changed.jobs) if changed.jobs else ""),
        ("Jobs go to", ", ".join(changed.to)),
        ("By", changed.principal),
    )
    return ChatText(
        title=f"Cluster {changed.cluster} {_CLUSTER_TITLES[changed.what]}",
        mood=_CLUSTER_MOODS.get(changed.what, "plain"),
        lines=lines,
    )


CLUSTER_CHANGED = EventType(
    name="cluster-changed",
    what="a cluster of the federation is drained, resumed, given up because it is silent, or back",
    facts=rows(StreamRole.FED, "federation", "cluster", *_CLUSTER_TITLES),
    body=_cluster_body,
    words=_cluster_words,
)


EVENTS: dict[str, AnyEvent] = {
    event.name: event
    for event in (JOB_ENDED, SCALE_CHOSEN, HARDWARE_CHANGED, JOB_FAULT, CAMPAIGN_CHANGED, CLUSTER_CHANGED)
}


def patterns(names: Collection[str], log: LogName) -> tuple[str, ...]:
    """Return the subjects of `log` with facts of these events, sorted; none if the log holds no such fact."""
    wanted = {
        fact_subject(log, writer=row.writer, kind=row.kind, subject_id="*", name=row.name, cluster=_anybody(log))
        for name in names
        for row in EVENTS[name].facts
        if row.stream is log.role
    }
    return tuple(sorted(wanted))


def event_of(names: Collection[str], fact: Fact) -> AnyEvent | None:
    """Return the event that the fact makes, among these; None for none."""
    return next((EVENTS[name] for name in names if EVENTS[name].is_made_by(fact)), None)


def _anybody(log: LogName) -> str:
    return "*" if log.role is StreamRole.FED else ""
