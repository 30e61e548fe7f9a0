"""Facts of other kinds that carry a job's trace are shown with that job: scaling and devices for its sake."""

import pytest

from kit.log import a_fact
from kit.projector import a_job
from muster.projector.core import FedProjectorCore, ProjectorCore
from muster.projector.core import job_table as bounds
from muster.projector.core.changes import ShownFact
from muster.projector.writer import commands
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.devices import ComposabilitySpec
from muster.schemas.facts.composability import ComposeRequested
from muster.schemas.facts.device import AttachmentFailed, DeviceOnline
from muster.schemas.facts.job import JobFinished, JobQueued, JobRouted, JobState, JobSubmitted
from muster.schemas.job import Job, Phase
from muster.schemas.readmodel import ReadModel, parse_recent_field
from muster.schemas.registry import STATE_NAME


def traced(number: int, *, trace: str = "") -> Job:
    job = a_job(number)
    trace_id = ids.trace_id(trace or job.id)
    return job.model_copy(update={"trace": ids.traceparent(trace_id, ids.span_id(job.id))})


class Log:
    """Folds facts as they are told; each has a span of its own, as on the bus."""

    def __init__(self, core: ProjectorCore | FedProjectorCore | None = None) -> None:
        self.core = core or ProjectorCore("atlas")
        self.seq = 0

    def tell(self, kind: str, subject_id: str, name: str, payload: Payload, *, job: Job | None = None) -> int:
        self.seq += 1
        trace_id = job.trace[3:35] if job else ""
        trace = ids.traceparent(trace_id, ids.span_id(f"f{self.seq}")) if trace_id else ""
        writer = "scheduler" if kind == "job" else "composer"
        self.core.apply(a_fact(writer, kind, subject_id, name, payload, seq=self.seq, trace=trace))
        return self.seq

    def lives(self, job: Job) -> None:
        self.tell("job", job.id, "routed", JobRouted(job=job, cluster="atlas"), job=job)
        self.tell("job", job.id, "queued", JobQueued(queue="blue", attempt=1), job=job)

    def serves(self, job: Job, attachment: str = "a1") -> int:
        return self.tell("attachment", attachment, "online", DeviceOnline(), job=job)

    def shown(self, *seqs: int) -> list[ShownFact]:
        by_seq = {fact.seq: fact for fact in self.core.take(facts_after=0).facts}
        return [by_seq[seq] for seq in seqs]

    def served_job(self, seq: int) -> str:
        return self.shown(seq)[0].job_id


def test_a_device_attached_for_a_job_is_shown_with_it_and_to_its_team() -> None:
    log, job = Log(), traced(1)
    log.lives(job)
    own, served = log.shown(2, log.serves(job))
    assert (served.job_id, served.team, served.serves) == (job.id, "blue", True)
    assert (own.job_id, own.team, own.serves) == (job.id, "blue", False)


def test_what_carries_no_jobs_trace_is_about_no_job() -> None:
    log, job = Log(), traced(1)
    log.lives(job)
    strange = log.serves(traced(2))
    silent = log.tell("attachment", "a1", "online", DeviceOnline())
    assert [(fact.job_id, fact.team) for fact in log.shown(strange, silent)] == [("", ""), ("", "")]


def test_an_ended_job_is_served_no_more() -> None:
    log, job = Log(), traced(1)
    log.lives(job)
    log.tell("job", job.id, "succeeded", JobFinished(attempt=1), job=job)
    assert log.served_job(log.serves(job)) == ""


def test_the_failure_of_a_device_is_no_failure_of_the_job() -> None:
    log, job = Log(), traced(1)
    log.lives(job)
    log.tell("attachment", "a1", "failed", AttachmentFailed(), job=job)
    assert (log.core.jobs_live, log.core.anomalies) == (1, 0)


def test_of_several_jobs_with_one_trace_the_newest_that_lives_is_served() -> None:
    log, first, second = Log(), traced(1, trace="pipeline"), traced(2, trace="pipeline")
    log.lives(first)
    log.lives(second)
    assert log.served_job(log.serves(second)) == second.id
    log.tell("job", first.id, "cancelled", JobFinished(), job=first)
    assert log.served_job(log.serves(second)) == second.id


def test_one_job_is_shown_with_a_bounded_number_of_such_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SERVING_FACTS_MAX", 3)
    log, job = Log(), traced(1)
    log.lives(job)
    served = [log.serves(job, f"a{number}") for number in range(5)]
    assert [bool(fact.job_id) for fact in log.shown(*served)] == [True, True, True, False, False]


def test_a_job_known_from_a_checkpoint_is_served() -> None:
    log, job = Log(), traced(1)
    log.tell("job", job.id, STATE_NAME, JobState(job=job, phase=Phase.QUEUED), job=job)
    assert log.served_job(log.serves(job)) == job.id


def test_a_request_under_a_jobs_trace_is_shown_with_it_while_only_the_federation_has_it() -> None:
    log, job = Log(FedProjectorCore()), traced(1)
    log.tell("job", job.id, "submitted", JobSubmitted(job=job), job=job)
    asked = ComposeRequested(spec=ComposabilitySpec(model="H100", size=1), principal="olga")
    seq = log.tell("composability", "r1", "compose-requested", asked, job=job)
    assert log.served_job(seq) == job.id


def test_listeners_learn_which_job_such_a_fact_serves() -> None:
    log, job = Log(), traced(1)
    log.lives(job)
    seq = log.serves(job)
    (entry,) = [
        command for command in commands(ReadModel("atlas"), log.core.take(facts_after=0)) if command[0] == "XADD"
    ]
    fields = [parse_recent_field(str(field).encode()) for field in entry[6::2]]
    assert fields == [(1, "blue", ""), (2, "blue", ""), (seq, "blue", job.id)]
