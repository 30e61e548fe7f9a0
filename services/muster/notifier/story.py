"""The data of a job for its terminal fact: from those of its facts that are in the log, or from its row. Pure.

Every fact of a job has a literal subject, so each is one look-up on the stream's leader, however long the log is.

At a center, any cluster's log could have facts of any job. The specification and the cluster of a job come from the
federation's log, or from its row there; the cluster's log adds where and when the job ran.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from muster.core.fact import Fact
from muster.schemas.facts.job import JobPlaced, JobResized, JobRouted, JobRunning, JobSubmitted
from muster.schemas.job import Slot
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, LogName, fact_subject
from muster.schemas.views import JobView


@dataclass(frozen=True, slots=True)
class JobStory:
    """A job as far as a message tells. Times are nanoseconds since the epoch, 0 while they have not come.

    run_attempt, started_at, nodes: of the newest run that began; placed_attempt: of the newest placement, which nodes
    belong to. trace: traceparent. cluster: that the job was given to last, "" if to none or if that is not known.
    """

    id: str
    name: str
    team: str
    queue: str = ""
    principal: str = ""
    gpu_milli: int = 0
    submitted_at: int = 0
    placed_attempt: int = 0
    nodes: tuple[str, ...] = ()
    run_attempt: int = 0
    started_at: int = 0
    trace: str = ""
    cluster: str = ""


def places(log: LogName, job_id: str, *, whole: bool, is_centre: bool) -> tuple[tuple[LogName, str], ...]:
    """Return the logs and subjects where the facts that make a story stand.

    whole: also where and when it ran, not only what it is. is_centre: ask the federation's log which cluster has the
    job: its newest `routed`, whatever cluster that is addressed to.
    """
    if log.role is StreamRole.FED:
        return ((log, fact_subject(log, writer="gateway", kind="job", subject_id=job_id, name="submitted")),)
    by = FED_LOG if is_centre else log
    first = fact_subject(by, writer="federation", kind="job", subject_id=job_id, name="routed", cluster="*")
    later = ("placed", "resized", "running") if whole else ()
    return (
        (by, first),
        *((log, fact_subject(log, writer="scheduler", kind="job", subject_id=job_id, name=name)) for name in later),
    )


def story_of(facts: Iterable[Fact]) -> JobStory | None:
    """Return the job's data from these facts of one job; None if the one with its specification is not among them."""
    by_body = {type(fact.payload): fact for fact in facts}
    first = by_body.get(JobRouted) or by_body.get(JobSubmitted)
    if first is None:
        return None
    assert isinstance(first.payload, JobRouted | JobSubmitted)
    job = first.payload.job
    placed_attempt, slots = _placement(by_body.get(JobPlaced), by_body.get(JobResized))
    running = by_body.get(JobRunning)
    return JobStory(
        id=job.id,
        name=job.spec.name,
        team=job.spec.team,
        queue=job.spec.queue_name,
        principal=job.principal,
        gpu_milli=job.spec.gpu_milli_total,
        submitted_at=job.submitted_at or first.time,
        placed_attempt=placed_attempt,
        nodes=_nodes(slots),
        run_attempt=running.payload.attempt if running and isinstance(running.payload, JobRunning) else 0,
        started_at=running.time if running else 0,
        trace=job.trace,
        cluster=first.payload.cluster if isinstance(first.payload, JobRouted) else "",
    )


def story_of_row(row: JobView) -> JobStory:
    """Return the same from the read model, for a job that is older than the log's first fact."""
    return JobStory(
        id=row.id,
        name=row.name,
        team=row.team,
        queue=row.queue,
        principal=row.principal,
        gpu_milli=row.gpu_milli,
        submitted_at=row.submitted_at,
        placed_attempt=row.attempt,
        nodes=row.nodes,
        run_attempt=row.attempt,
        started_at=row.running_at,
        trace=row.trace,
        cluster=row.cluster,
    )


def with_run(story: JobStory, ran: JobStory) -> JobStory:
    """Return the first story with where and when the job ran by the second."""
    return replace(
        story,
        placed_attempt=ran.placed_attempt,
        nodes=ran.nodes,
        run_attempt=ran.run_attempt,
        started_at=ran.started_at,
    )


def _placement(placed: Fact | None, resized: Fact | None) -> tuple[int, tuple[Slot, ...]]:
    """Return the slots that the job held last, from the newer of the two."""
    newest = max((fact for fact in (placed, resized) if fact is not None), key=lambda fact: fact.seq, default=None)
    if newest is None:
        return 0, ()
    assert isinstance(newest.payload, JobPlaced | JobResized)
    return newest.payload.attempt, newest.payload.slots


def _nodes(slots: Iterable[Slot]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(slot.node for slot in slots))
