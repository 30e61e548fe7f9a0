"""The event `job-ended`: how a job's end is told. Pure."""

from muster.core.fact import Fact
from muster.core.instant import seconds_between
from muster.notifier.events import EventType, Told, Words, rfc3339, rows, trace_id
from muster.notifier.spans import span
from muster.notifier.story import JobStory
from muster.schemas.facts.job import JobFinished
from muster.schemas.registry import StreamRole
from muster.schemas.webhooks import NODES_MAX, JobEnded

_WORDS = {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled", "timed-out": "ran out of time"}
_MOODS = {"succeeded": "good", "failed": "bad", "timed-out": "bad"}


def body(told: Told) -> JobEnded:
    """What a receiver is sent."""
    fact, finished = told.fact, _finished(told.fact)
    story = told.jobs.get(fact.subject_id) or JobStory(id=fact.subject_id, name="", team="")
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
        trace_id=trace_id(told.trace),
        url=told.url(f"/jobs/{fact.subject_id}"),
    )


def words(told: Told) -> Words:
    """The same for people."""
    ended = body(told)
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
    return Words(
        title=f"{ended.name or ended.job_id} {_WORDS.get(ended.phase, ended.phase)}",
        mood=_MOODS.get(ended.phase, "plain"),
        lines=tuple((name, value) for name, value in lines if value),
        text=ended.reason,
        url=ended.url,
    )


def _finished(fact: Fact) -> JobFinished:
    assert isinstance(fact.payload, JobFinished), f"{fact.name} of a job is no terminal fact"
    return fact.payload


JOB_ENDED = EventType(
    name="job-ended",
    what="a job reached its end: it succeeded, failed, was cancelled or ran out of time",
    facts=(
        *rows(StreamRole.LOG, "scheduler", "job", "succeeded", "failed", "cancelled", "timed-out"),
        *rows(StreamRole.FED, "federation", "job", "cancelled"),  # of a job that never reached a cluster
    ),
    jobs=lambda fact: (fact.subject_id,),
    body=body,
    words=words,
    whole=True,
)
