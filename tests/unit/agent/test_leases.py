"""Jobs that another cluster may be given end in time when the federation is not heard; the others run on."""

import pytest

from muster.core import Draft, seconds_between
from muster.schemas.facts.control import ClusterState, ClusterSummary
from muster.schemas.facts.federation import ContactRenewed, ContactState, Heartbeat, JobReturned
from muster.schemas.facts.job import JobQueued, JobRouted, JobState, PodsExited, PodsOutcome
from muster.schemas.job import Job, Phase
from unit.agent.harness import VirtualAgent, job, slot

LOST_AFTER_S, MARGIN_S = 100.0, 20.0
LEASE_S = LOST_AFTER_S - MARGIN_S


class Leased(VirtualAgent):
    """A cluster of several, whose scheduler and federation the tests play."""

    def launch_leased(self, wanted: Job, *, lost_after_s: float = LOST_AFTER_S) -> None:
        routed = JobRouted(job=wanted, cluster="local", lost_after_s=lost_after_s)
        self.write("federation", "job", wanted.id, "routed", routed)
        self.write("scheduler", "job", wanted.id, "queued", JobQueued(queue="blue", attempt=1))
        self.place(wanted)

    def sign_of_life(self, number: int) -> None:
        self.write("scheduler", "cluster", "local", "summarised", ClusterSummary(number=number))

    def answer(self, number: int) -> None:
        renewed = ContactRenewed(number=number, lost_after_s=LOST_AFTER_S, margin_s=MARGIN_S)
        self.write("federation", "cluster", "local", "contact-renewed", renewed)

    def exits(self) -> list[PodsExited]:
        return [fact.payload for fact in self.facts("pods-exited")]  # type: ignore[misc]


@pytest.fixture
def agent() -> Leased:
    agent = Leased()
    agent.settle()
    agent.sign_of_life(1)
    agent.answer(1)
    return agent


def test_without_an_answer_pods_end_the_margin_before_the_cluster_is_given_up(agent: Leased) -> None:
    began, wanted = agent.now, job(1, run_s=1_000.0)
    agent.launch_leased(wanted)
    agent.run(LEASE_S - 1)
    assert agent.exits() == []
    agent.run(2)
    (lost,) = agent.facts("contact-lost")
    assert seconds_between(began, lost.time) == pytest.approx(LEASE_S)
    agent.run(MARGIN_S / 2)
    (gone,) = agent.exits()
    assert gone.outcome is PodsOutcome.STOPPED


def test_the_time_counts_from_when_the_answered_summary_was_written_not_from_the_answer(agent: Leased) -> None:
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.sign_of_life(2)
    agent.run(LEASE_S - 10)
    agent.answer(2)
    agent.run(11)
    assert agent.facts("contact-lost")


def test_answers_in_time_keep_the_pods_running(agent: Leased) -> None:
    wanted = job(1, run_s=450.0)
    agent.launch_leased(wanted)
    for number in range(2, 52):
        agent.sign_of_life(number)
        agent.run(10)
        agent.answer(number)
    assert agent.facts("contact-lost") == []
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.SUCCEEDED]


@pytest.mark.parametrize("number", [0, 7])
def test_an_answer_to_no_summary_that_is_remembered_counts_for_nothing(agent: Leased, number: int) -> None:
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.run(50)
    agent.answer(number or 1)
    agent.run(40)
    assert agent.facts("contact-lost")


def test_what_is_pinned_or_never_given_away_runs_on(agent: Leased) -> None:
    pinned, leased = job(1, run_s=300.0), job(2, run_s=300.0)
    agent.launch_leased(pinned, lost_after_s=0.0)
    agent.launch_leased(leased)
    agent.run(400)
    by_job = {fact.subject_id: fact.payload.outcome for fact in agent.facts("pods-exited")}
    assert by_job == {pinned.id: PodsOutcome.SUCCEEDED, leased.id: PodsOutcome.STOPPED}


def test_a_placement_that_passes_the_loss_of_contact_is_ended_at_once(agent: Leased) -> None:
    agent.run(LEASE_S + 1)
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.run(5)
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.STOPPED]
    assert agent.facts("pods-started") == []


def test_after_contact_came_back_attempts_run_again(agent: Leased) -> None:
    wanted = job(1, run_s=30.0)
    agent.launch_leased(wanted)
    agent.run(1_000)
    agent.sign_of_life(2)
    agent.answer(2)
    again = job(2, run_s=30.0)
    agent.launch_leased(again)
    agent.run(60)
    assert agent.told(again.id) == ["pods-started", "pods-exited"]


def test_where_no_cluster_is_given_up_the_agent_never_wakes_for_it() -> None:
    agent = Leased()
    agent.settle()
    before = agent.core.next_wakeup()
    agent.sign_of_life(0)
    assert agent.core.next_wakeup() == before
    agent.run(1_000)
    assert agent.facts("contact-lost") == []


@pytest.mark.parametrize("at_s", [10.0, LEASE_S - 0.5, LEASE_S + 0.5])
def test_a_crash_changes_nothing(agent: Leased, at_s: float) -> None:
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.run(at_s)
    agent.crash()
    agent.run(200)
    assert len(agent.facts("contact-lost")) == 1
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.STOPPED]


def test_what_a_checkpoint_says_of_contact_ends_pods_in_time(agent: Leased) -> None:
    wanted = job(1, run_s=1_000.0)
    agent.launch_leased(wanted)
    agent.run(30)
    contact = ContactState(
        number=1, until=agent.now + 10 * 10**9, unanswered=(Heartbeat(number=2, at=agent.now),), lost_after_s=100.0,
        margin_s=MARGIN_S, last=2,
    )  # fmt: skip
    stored = JobState(
        job=wanted, phase=Phase.RUNNING, queue="blue", slots=(slot(),), lost_after_s=LOST_AFTER_S, routed_seq=1
    )
    states = [*agent.core.snapshot(), Draft("job", wanted.id, "state-recorded", stored)]
    cluster = Draft("cluster", "local", "state-recorded", ClusterState(contact=contact))
    agent.recover_from_checkpoint([*states, cluster])
    agent.run(9)
    assert agent.exits() == []
    agent.run(15)
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.STOPPED]


def test_a_job_that_was_given_back_is_forgotten_and_may_come_again(agent: Leased) -> None:
    wanted = job(1, run_s=30.0)
    agent.write("federation", "job", wanted.id, "routed", JobRouted(job=wanted, cluster="local"))
    agent.write("scheduler", "job", wanted.id, "returned", JobReturned(assignment=1))
    assert wanted.id not in agent.core.jobs
    agent.launch_leased(wanted)
    agent.run(5)
    assert agent.told(wanted.id) == ["pods-started"]
    assert agent.core.anomalies == 0
