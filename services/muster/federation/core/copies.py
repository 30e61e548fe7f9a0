"""Translate a cluster's report into a fact of the federation's own log."""

from muster.core import Draft, Fact
from muster.federation.core.state import State
from muster.schemas import ids
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import Assignment, JobReturned, JobReturnRefused
from muster.schemas.facts.job import JobEnded, JobFinished
from muster.schemas.job import Phase


def copy_of(report: Fact) -> Draft | None:
    """Return the copy of a fact of FED_UP, named with `job-` or `cluster-` as a prefix; None for other facts.

    It has no addressee: a cluster does not need its own report back.
    """
    causes = (report.id,)
    match report.payload:
        case JobFinished() as end:
            ended = JobEnded(
                cluster=report.cluster,
                phase=Phase(report.name),
                ended_at=report.time,
                reason=end.reason,
                source_seq=report.seq,
                assignment=end.assignment,
            )
            return Draft("job", report.subject_id, "job-ended", ended, causes, report.trace)
        case JobReturned() | JobReturnRefused() as told:
            again = told.model_copy(update={"cluster": report.cluster, "source_seq": report.seq})
            name = "job-returned" if isinstance(told, JobReturned) else "job-return-refused"
            return Draft("job", report.subject_id, name, again, causes, report.trace)
        case ClusterSummary() as summary:
            said = summary.model_copy(update={"cluster": report.cluster, "source_seq": report.seq})
            return Draft("cluster", report.cluster, "cluster-summarised", said, causes, report.trace)
        case _:
            return None


def assignment_in(draft: Draft) -> Assignment | None:
    """Return the assignment that a copy is about; None for none."""
    match draft.payload:
        case JobEnded() as told:
            return Assignment(cluster=told.cluster, number=told.assignment)
        case JobReturned() | JobReturnRefused() as told:
            return Assignment(cluster=told.cluster, number=told.assignment)
        case _:
            return None


def is_awaited(state: State, job_id: str, told: Assignment) -> bool:
    """Return whether the assignment is the job's current one, or an earlier one that is not settled yet."""
    record = state.jobs.get(job_id)
    if record is None:
        return False
    return (record.cluster, record.assignment) == (told.cluster, told.number) or told in record.owed


def is_asked_back(state: State, job_id: str) -> bool:
    """Return whether the job was recalled from its cluster, which has not answered yet."""
    record = state.jobs.get(job_id)
    return record is not None and record.reroute is not None and record.reroute.forwarded


def copy_id(stream: str, seq: int) -> str:
    """Return the id of the copy of one message: the same message gives the same fact."""
    return ids.request_fact_id("copy", stream, str(seq))
