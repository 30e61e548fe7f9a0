"""What an object asks, what is answered, and what the agent makes of an object that changes or goes."""

import pytest

from kit.agent_workloads import SPEC, UNFIT, WatchingAgent, seen
from muster.agent.core.workload_values import Shown, WorkloadKind
from muster.schemas import ids
from muster.schemas.facts.job import JobQueued, JobStopRequested, JobUnschedulable, QueuedReason, StopReason
from muster.schemas.facts.workload import JobRefused, WorkloadCancelRequested, WorkloadRejected, WorkloadState
from muster.schemas.job import Phase


@pytest.fixture
def agent() -> WatchingAgent:
    return WatchingAgent()


def test_an_object_that_asks_is_one_wish_in_the_name_of_its_namespace(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.see(seen())
    request = agent.asked()
    assert agent.names() == ["submit-requested"]
    assert (request.spec, request.principal) == (SPEC, "kubernetes:blue")
    assert (request.origin.kind, request.origin.namespace, request.origin.uid) == ("MusterJob", "blue", "u-1")
    assert request.job_id == ids.origin_job_id(team="blue", cluster="local", namespace="blue", uid="u-1")


def test_a_namespace_asks_for_the_team_that_the_settings_name(agent: WatchingAgent) -> None:
    agent.see(seen(namespace="ns-red"))
    expected = ids.origin_job_id(team="red", cluster="local", namespace="ns-red", uid="u-1")
    assert agent.asked().job_id == expected


def test_a_refusal_is_found_by_its_object_whatever_job_the_gateway_makes_of_it(agent: WatchingAgent) -> None:
    """The settings of agent and gateway differ in the namespace's team, and so do the ids that they make."""
    agent.see(seen())
    refused = JobRefused(workload="u-1", cluster="local", reason="another team", wish=agent.wish().id)
    agent.write("federation", "job", "B" * 26, "refusal-forwarded", refused)
    assert agent.workloads.records["u-1"].refused == refused


def test_an_object_whose_namespace_acts_for_another_team_now_is_asked_for_as_another_job(agent: WatchingAgent) -> None:
    agent.see(seen())
    before = agent.asked().job_id
    agent.refuse()
    asked = agent.asked().model_copy(update={"job_id": "B" * 26})
    agent.write("agent", "workload", "u-1", "submit-requested", asked)
    record = agent.workloads.log.of_job("B" * 26)
    assert record is not None
    assert record.uid == "u-1"
    assert agent.workloads.log.of_job(before) is None


def test_an_object_made_anew_under_its_name_is_another_job(agent: WatchingAgent) -> None:
    agent.see(seen("u-1", name="train"))
    agent.lose("u-1")
    agent.see(seen("u-2", name="train"))
    assert agent.asked("u-1").job_id != agent.asked("u-2").job_id


@pytest.mark.parametrize("state", [{"deleting": True}, {"finished": True}, {"asks": None}])
def test_an_object_that_is_going_over_or_taken_up_asks_nothing(agent: WatchingAgent, state: dict[str, object]) -> None:
    agent.see(seen(**state))
    assert agent.names() == []


def test_an_object_that_can_be_no_job_is_rejected_once_for_each_change_of_it(agent: WatchingAgent) -> None:
    for generation in (1, 1, 2):
        agent.see(seen(asks=UNFIT, generation=generation))
    assert agent.names() == ["rejected", "rejected"]
    said = agent.facts("rejected")[-1].payload
    assert isinstance(said, WorkloadRejected)
    assert (said.reason, said.field, said.cure, said.generation) == (UNFIT.reason, UNFIT.field, UNFIT.cure, 2)


def test_an_object_that_no_fact_can_hold_is_rejected(agent: WatchingAgent) -> None:
    """An object may have 1.5 MB, a fact a third of that; the agent must not stumble over it for ever."""
    large = SPEC.model_copy(update={"command": tuple("x" * 1024 for _ in range(256)), "labels": {"a": "y" * 1024}})
    agent.see(seen(asks=large))
    assert agent.names() == ["rejected"]
    said = agent.facts("rejected")[-1].payload
    assert isinstance(said, WorkloadRejected)
    assert said.field == "spec"
    assert "bytes" in said.reason


def test_a_rejected_object_that_was_mended_becomes_a_job(agent: WatchingAgent) -> None:
    agent.see(seen(asks=UNFIT))
    agent.see(seen(generation=2))
    assert agent.names() == ["rejected", "submit-requested"]


def test_an_object_that_shows_its_rejection_is_not_rejected_again_after_the_log_forgot_it(agent: WatchingAgent) -> None:
    agent.see(seen(asks=UNFIT, shown=Shown(generation=1)))
    assert agent.names() == []


def test_deleting_the_object_cancels_its_job_once(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.accept()
    agent.see(seen(deleting=True))
    agent.lose("u-1")
    assert agent.names() == ["submit-requested", "cancel-requested"]
    said = agent.facts("cancel-requested")[0].payload
    assert isinstance(said, WorkloadCancelRequested)
    assert said.principal == "kubernetes:blue"
    assert "MusterJob blue/train-u-1 was deleted" in said.reason


def test_an_object_deleted_before_its_job_was_accepted_is_cancelled_when_it_is(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.lose("u-1")
    assert agent.names() == ["submit-requested"], "the gateway must not be asked to cancel what it does not know yet"
    agent.accept()
    assert agent.names() == ["submit-requested", "cancel-requested"]


def test_what_was_not_read_yet_is_not_gone(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.accept()
    agent.restart()
    agent.settle()
    assert agent.names() == ["submit-requested"]
    agent.workloads.read(WorkloadKind.JOB)
    agent.settle()
    assert agent.names() == ["submit-requested"], "another kind says nothing of this one"
    agent.workloads.read(WorkloadKind.MUSTER_JOB)
    agent.settle()
    assert agent.names() == ["submit-requested", "cancel-requested"]


def test_a_job_that_ended_is_settled_when_its_object_shows_it(agent: WatchingAgent) -> None:
    agent.see(seen())
    job = agent.accept()
    agent.finish(job)
    agent.settle()
    assert agent.names() == ["submit-requested"]
    agent.shows(phase="running")
    assert agent.names() == ["submit-requested"]
    agent.shows(phase="succeeded")
    assert agent.names() == ["submit-requested", "settled"]
    agent.see(seen())
    assert agent.names() == ["submit-requested", "settled"], "an object is a job once"
    assert not agent.workloads.records


def test_a_job_that_ended_is_settled_when_its_object_is_gone(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.finish(agent.accept(), "cancelled")
    agent.lose("u-1")
    assert agent.names() == ["submit-requested", "settled"]


def test_nothing_is_settled_of_an_object_that_nobody_looked_for_yet(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.finish(agent.accept())
    agent.restart()
    agent.settle()
    assert "settled" not in agent.names(), "it may be there, and must show the end first"
    agent.workloads.read(WorkloadKind.MUSTER_JOB)
    agent.settle()
    assert agent.names()[-1] == "settled"


def test_a_refusal_that_comes_after_the_job_counts_for_nothing(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.accept()
    agent.refuse()
    assert agent.workloads.records["u-1"].refused is None


def test_the_standing_follows_the_job(agent: WatchingAgent) -> None:
    agent.see(seen())
    job = agent.accept()
    agent.write("scheduler", "job", job.id, "unschedulable", JobUnschedulable(reason="no-capacity", detail="1 of 2"))
    standing = agent.workloads.records["u-1"].standing
    assert (standing.phase, standing.reason, standing.detail) == (Phase.QUEUED, "no-capacity", "1 of 2")
    agent.start(job, "gpu-0001", "gpu-0002", "gpu-0001")
    standing = agent.workloads.records["u-1"].standing
    assert (standing.phase, standing.nodes, standing.nodes_total) == (Phase.RUNNING, ("gpu-0001", "gpu-0002"), 2)
    assert (standing.reason, standing.attempt, standing.started_at) == ("", 1, agent.now)
    agent.write("scheduler", "job", job.id, "stop-requested", JobStopRequested(attempt=1, reason=StopReason.PREEMPTED))
    standing = agent.workloads.records["u-1"].standing
    assert (standing.phase, standing.reason, standing.stopping) == (Phase.STOPPING, "preempted", True)
    agent.write("scheduler", "job", job.id, "queued", JobQueued(queue="blue", attempt=2, reason=QueuedReason.PREEMPTED))
    standing = agent.workloads.records["u-1"].standing
    assert (standing.phase, standing.reason, standing.nodes, standing.stopping) == (
        Phase.QUEUED, "preempted", (), False,
    )  # fmt: skip


def test_only_what_changed_is_to_be_shown(agent: WatchingAgent) -> None:
    for uid in ("u-1", "u-2"):
        agent.see(seen(uid))
    job = agent.accept("u-1")
    agent.workloads.changed.clear()
    agent.start(job, "gpu-0001")
    assert list(agent.workloads.changed) == ["u-1"]


def test_many_wishes_come_in_bounded_decisions(agent: WatchingAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.agent.core.workloads.workloads.DRAFTS_MAX", 3)
    for number in range(10):
        agent.workloads.see(seen(f"u-{number}"))
    assert len(agent.core.decide(agent.now)) == 3
    agent.settle()
    assert len(agent.facts("submit-requested")) == 10


def test_an_agent_that_comes_back_from_the_log_or_a_checkpoint_goes_on_where_it_was(agent: WatchingAgent) -> None:
    for uid in ("u-1", "u-2", "u-3"):
        agent.see(seen(uid))
    job = agent.accept("u-1")
    agent.start(job, "gpu-0001")
    agent.refuse("u-2")
    before = records(agent)
    agent.restart()
    assert records(agent) == before
    agent.recover_from_checkpoint(tuple(agent.core.snapshot()))
    assert records(agent) == before
    agent.finish(job)
    agent.shows("u-1")
    assert agent.names("u-1")[-1] == "settled"


def records(agent: WatchingAgent) -> dict[str, WorkloadState]:
    return {uid: record.as_body(WorkloadState) for uid, record in agent.workloads.records.items()}


def test_who_only_folds_keeps_nothing_of_objects_that_are_over(agent: WatchingAgent) -> None:
    """A standby decides nothing, and so takes nothing out."""
    for number in range(5):
        uid = f"u-{number}"
        agent.see(seen(uid, asks=UNFIT if number == 4 else SPEC))
        if number < 4:
            agent.finish(agent.accept(uid))
            agent.shows(uid)
        agent.lose(uid)
    standby = agent.new_core().workloads
    for fact in agent.log:
        standby.apply(fact)
    assert not standby.records
    assert not standby.has_news
    assert not standby.changed


def test_that_an_object_is_gone_is_told_to_whoever_shows_it(agent: WatchingAgent) -> None:
    agent.see(seen())
    agent.finish(agent.accept())
    agent.workloads.changed.clear()
    agent.lose("u-1")
    assert agent.names()[-1] == "settled"
    assert list(agent.workloads.changed) == ["u-1"]
