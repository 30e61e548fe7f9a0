"""Jobs that another cluster may be given end in time when the federation is not heard; the others run on."""

import pytest

from kit.agent import VirtualAgent, job, slot
from muster.agent.core.leases import UNHEARD_SHARE
from muster.core import NS_PER_S, Draft, Instant, seconds_between
from muster.schemas.facts.control import ClusterState, ClusterSummary
from muster.schemas.facts.federation import ContactRenewed, ContactState, Heartbeat, JobReturned
from muster.schemas.facts.job import JobQueued, JobRouted, JobState, PodsExited, PodsOutcome
from muster.schemas.job import Job, Phase

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
    agent.advance(LEASE_S - 1)
    assert agent.exits() == []
    agent.advance(2)
    (lost,) = agent.facts("contact-lost")
    assert seconds_between(began, lost.time) == pytest.approx(LEASE_S)
    agent.advance(MARGIN_S / 2)
    (gone,) = agent.exits()
    assert gone.outcome is PodsOutcome.STOPPED


def test_the_time_counts_from_when_the_answered_summary_was_written_not_from_the_answer(agent: Leased) -> None:
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.sign_of_life(2)
    agent.advance(LEASE_S - 10)
    agent.answer(2)
    agent.advance(11)
    assert agent.facts("contact-lost")


def test_answers_in_time_keep_the_pods_running(agent: Leased) -> None:
    wanted = job(1, run_s=450.0)
    agent.launch_leased(wanted)
    for number in range(2, 52):
        agent.sign_of_life(number)
        agent.advance(10)
        agent.answer(number)
    assert agent.facts("contact-lost") == []
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.SUCCEEDED]


@pytest.mark.parametrize("number", [0, 7])
def test_an_answer_to_no_summary_that_is_remembered_counts_for_nothing(agent: Leased, number: int) -> None:
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.advance(50)
    agent.answer(number or 1)
    agent.advance(40)
    assert agent.facts("contact-lost")


def test_what_is_pinned_or_never_given_away_runs_on(agent: Leased) -> None:
    pinned, leased = job(1, run_s=300.0), job(2, run_s=300.0)
    agent.launch_leased(pinned, lost_after_s=0.0)
    agent.launch_leased(leased)
    agent.advance(400)
    by_job = {fact.subject_id: fact.payload.outcome for fact in agent.facts("pods-exited")}
    assert by_job == {pinned.id: PodsOutcome.SUCCEEDED, leased.id: PodsOutcome.STOPPED}


def test_a_placement_that_passes_the_loss_of_contact_is_ended_at_once(agent: Leased) -> None:
    agent.advance(LEASE_S + 1)
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.advance(5)
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.STOPPED]
    assert agent.facts("pods-started") == []


def test_after_contact_came_back_attempts_run_again(agent: Leased) -> None:
    wanted = job(1, run_s=30.0)
    agent.launch_leased(wanted)
    agent.advance(1_000)
    agent.sign_of_life(2)
    agent.answer(2)
    again = job(2, run_s=30.0)
    agent.launch_leased(again)
    agent.advance(60)
    assert agent.told(again.id) == ["pods-started", "pods-exited"]


def test_where_no_cluster_is_given_up_the_agent_never_wakes_for_it() -> None:
    agent = Leased()
    agent.settle()
    before = agent.core.next_wakeup()
    agent.sign_of_life(0)
    assert agent.core.next_wakeup() == before
    agent.advance(1_000)
    assert agent.facts("contact-lost") == []


@pytest.mark.parametrize("at_s", [10.0, LEASE_S - 0.5, LEASE_S + 0.5])
def test_a_crash_changes_nothing(agent: Leased, at_s: float) -> None:
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.advance(at_s)
    agent.crash()
    agent.advance(200)
    assert len(agent.facts("contact-lost")) == 1
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.STOPPED]


def test_what_a_checkpoint_says_of_contact_ends_pods_in_time(agent: Leased) -> None:
    wanted = job(1, run_s=1_000.0)
    agent.launch_leased(wanted)
    agent.advance(30)
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
    agent.advance(9)
    assert agent.exits() == []
    agent.advance(15)
    assert [gone.outcome for gone in agent.exits()] == [PodsOutcome.STOPPED]


def test_a_job_that_was_given_back_is_forgotten_and_may_come_again(agent: Leased) -> None:
    wanted = job(1, run_s=30.0)
    agent.write("federation", "job", wanted.id, "routed", JobRouted(job=wanted, cluster="local"))
    agent.write("scheduler", "job", wanted.id, "returned", JobReturned(assignment=1))
    assert wanted.id not in agent.core.jobs
    agent.launch_leased(wanted)
    agent.advance(5)
    assert agent.told(wanted.id) == ["pods-started"]
    assert agent.core.anomalies == 0


class OnFullLog(Leased):
    """What the agent decides is refused, until there is room."""

    def wait(self, seconds: float) -> int:
        """Time passes, the agent decides, and nothing of it is stored; how many attempts it ended without a word."""
        self.now = Instant(self.now + round(seconds * NS_PER_S))
        self.core.decide(self.now)
        return self.core.end_unheard(self.now)


@pytest.fixture
def full() -> OnFullLog:
    agent = OnFullLog()
    agent.settle()
    agent.sign_of_life(1)
    agent.answer(1)
    agent.launch_leased(job(1, run_s=1_000.0))
    agent.settle()
    return agent


def test_on_a_full_log_pods_end_before_the_cluster_is_given_up_and_the_log_hears_later(full: OnFullLog) -> None:
    full.launch_leased(pinned := job(2, run_s=1_000.0), lost_after_s=0.0)
    full.settle()
    assert full.wait(LEASE_S + UNHEARD_SHARE * MARGIN_S - 1) == 0, "the log may yet take it"
    assert full.wait(2) == 1
    told = len(full.log)
    full.settle()  # there is room
    names = [(fact.name, fact.subject_id) for fact in full.log[told:]]
    assert names[0] == ("contact-lost", "local"), "so that the scheduler knows why"
    (gone,) = full.facts("pods-exited")
    assert gone.subject_id != pinned.id
    assert isinstance(gone.payload, PodsExited)
    assert gone.payload.outcome is PodsOutcome.STOPPED


def test_ending_them_changes_nothing_that_is_believed_and_twice_is_as_once(full: OnFullLog) -> None:
    full.wait(LEASE_S + MARGIN_S)
    before = repr(sorted(map(repr, full.core.snapshot())))
    assert full.core.end_unheard(full.now) == 1
    assert repr(sorted(map(repr, full.core.snapshot()))) == before
    full.settle()
    assert len(full.facts("pods-exited")) == len(full.facts("contact-lost")) == 1
    assert full.core.end_unheard(full.now) == 0


def test_an_agent_that_was_started_anew_meanwhile_ends_them_too(full: OnFullLog) -> None:
    """It knows from the log alone; by its lease it may act, though no term of it stands there (`bus.effects`)."""
    full.wait(LEASE_S)
    full.crash()
    assert full.wait(UNHEARD_SHARE * MARGIN_S + 1) == 1
    full.settle()
    assert [gone.outcome for gone in full.exits()] == [PodsOutcome.STOPPED]


def test_what_is_placed_before_anybody_could_say_that_contact_is_lost_is_ended_at_once(full: OnFullLog) -> None:
    full.wait(LEASE_S + 1)
    late = job(3, run_s=1_000.0)
    full.launch_leased(late)  # the log has room, and the scheduler was faster
    full.advance(5)
    assert full.told(late.id) == ["pods-exited"]


def test_an_answer_in_time_keeps_all_running_on_a_log_that_was_full_for_a_while(full: OnFullLog) -> None:
    full.sign_of_life(2)
    assert full.wait(LEASE_S / 2) == 0
    full.answer(2)
    assert full.wait(LEASE_S / 2 + 1) == 0
    full.sign_of_life(3)
    full.answer(3)
    assert full.wait(LEASE_S - 1) == 0
