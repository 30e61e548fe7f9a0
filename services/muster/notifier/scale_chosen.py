"""The event `scale-chosen`: how a decision to grow or shrink the fleet is told. Pure."""

from muster.core.fact import Fact
from muster.notifier.events import EventType, Told, Words, rfc3339, rows, trace_id
from muster.notifier.limits import JOBS_LOOKED_UP_MAX
from muster.notifier.spans import span
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.registry import StreamRole
from muster.schemas.webhooks import DEVICES_MAX, JOBS_MAX, PARTS_MAX, ScaleDecided, ServedJob

_VERBS = {
    "gpu-attach-chosen": "Attach",
    "node-add-chosen": "Add",
    "gpu-remove-chosen": "Give back",
    "node-remove-chosen": "Remove",
}


def body(told: Told) -> ScaleDecided:
    """What a receiver is sent."""
    fact, chosen = told.fact, _chosen(told.fact)
    own = (job_id for job_id in chosen.jobs if job_id not in told.foreign)
    jobs = tuple(job for job in (_served(told, job_id) for job_id in own) if job is not None)
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
        url=told.url("/scale"),
    )


def words(told: Told) -> Words:
    """The same for people."""
    decided = body(told)
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
    return Words(
        title=f"{_VERBS.get(decided.choice, decided.choice)} {_what(decided)}",
        lines=tuple((name, value) for name, value in lines if value),
        text=decided.reason,
        url=decided.url,
    )


def _what(decided: ScaleDecided) -> str:
    if decided.choice.startswith("node-"):
        return f"node {decided.node}" if decided.node else f"a node of group {decided.group}"
    gpus = f"{decided.count} {decided.device_model} GPU{'' if decided.count == 1 else 's'}".replace("  ", " ")
    nodes = tuple(dict.fromkeys(part.node for part in decided.parts)) or ((decided.node,) if decided.node else ())
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    if not nodes:
        return gpus
    return f"{gpus} {'from' if decided.choice == 'gpu-remove-chosen' else 'to'} {where}"


def _served(told: Told, job_id: str) -> ServedJob | None:
    """The job as far as it is known; None if it is none of the teams that this message is for."""
    story = told.jobs.get(job_id)
    if told.teams and (story is None or story.team not in told.teams):
        return None
    return ServedJob(job_id=job_id) if story is None else ServedJob(job_id=job_id, name=story.name, team=story.team)


def _chosen(fact: Fact) -> ScaleChosen:
    assert isinstance(fact.payload, ScaleChosen), f"{fact.name} is no choice"
    return fact.payload


SCALE_CHOSEN = EventType(
    name="scale-chosen",
    what="GPUs or a node are to be added or taken away",
    facts=rows(
        StreamRole.LOG, "scaler", "scale",
        "gpu-attach-chosen", "node-add-chosen", "gpu-remove-chosen", "node-remove-chosen",
    ),
    jobs=lambda fact: _chosen(fact).jobs[:JOBS_LOOKED_UP_MAX],
    body=body,
    words=words,
)  # fmt: skip
