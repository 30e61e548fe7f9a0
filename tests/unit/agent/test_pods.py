"""How the agent tells of pods: placed, started, exited, in virtual time."""

import pytest

from kit.agent import QUICK, VirtualAgent, job, slot
from muster.agent.core.behaviour import Behaviour
from muster.core import NS_PER_S, Instant, seconds_between
from muster.schemas.facts.job import PodsExited, PodsOutcome, PodsStarted
from muster.schemas.job import Slot


@pytest.fixture
def agent() -> VirtualAgent:
    agent = VirtualAgent()
    agent.settle()
    return agent


def exit_of(agent: VirtualAgent) -> PodsExited:
    (fact,) = agent.facts("pods-exited")
    assert isinstance(fact.payload, PodsExited)
    return fact.payload


def test_a_placed_job_starts_and_ends_after_the_run_time_on_its_label(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=12.0, exit_code=0)
    agent.launch(wanted)
    agent.advance(60)
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]
    started, exited = agent.facts("pods-started")[0], agent.facts("pods-exited")[0]
    assert seconds_between(started.time, exited.time) == pytest.approx(12.0, abs=0.06)
    assert exit_of(agent) == PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED, ran_s=12.0)


def test_nothing_is_told_before_its_time(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=12.0)
    agent.launch(wanted)
    assert agent.core.decide(agent.now) == []
    assert (agent.core.next_wakeup() or 0) > agent.now


def test_facts_carry_the_jobs_trace_and_what_led_to_them(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1.0)
    agent.route(wanted)
    placed = agent.place(wanted)
    agent.advance(60)
    started, exited = agent.facts("pods-started")[0], agent.facts("pods-exited")[0]
    assert (started.trace, exited.trace) == (wanted.trace, wanted.trace)
    assert (started.causes, exited.causes) == ((placed.id,), (started.id,))


def test_observed_devices_are_those_of_the_node_by_index(agent: VirtualAgent) -> None:
    wanted = job(1)
    agent.launch(wanted, slot(1, 3), Slot(group=0, replica=1, node="gpu-0002", devices=(0, 7), gpu_milli=1000))
    agent.advance(5)
    started = agent.facts("pods-started")[0].payload
    assert isinstance(started, PodsStarted)
    first, second = (agent.core.nodes[name].description for name in ("gpu-0001", "gpu-0002"))
    assert first is not None
    assert second is not None
    assert started.device_uuids == ((first.gpu_uuids[3],), (second.gpu_uuids[0], second.gpu_uuids[7]))


def test_an_exit_code_on_the_label_fails_the_job_on_one_of_its_nodes(agent: VirtualAgent) -> None:
    agent.launch(job(1, run_s=2.0, exit_code=17), slot(2))
    agent.advance(10)
    ended = exit_of(agent)
    assert (ended.outcome, ended.exit_code, ended.node) == (PodsOutcome.FAILED, 17, "gpu-0002")


@pytest.mark.parametrize("label", ["soon", "nan", "-3", "inf", ""])
def test_a_run_time_that_is_no_number_counts_as_absent(agent: VirtualAgent, label: str) -> None:
    plain, odd = job(1), job(1)
    odd.spec.labels["sim.muster.dev/run-s"] = label
    agent.launch(odd)
    agent.advance(10_000)
    other = VirtualAgent()
    other.settle()
    other.launch(plain)
    other.advance(10_000)
    assert exit_of(agent).ran_s == exit_of(other).ran_s


def test_without_labels_a_share_of_the_jobs_fails() -> None:
    agent = VirtualAgent(behaviour=Behaviour(seed=3, job_failure_share=0.25))
    agent.settle()
    for number in range(200):
        agent.launch(job(number))
    agent.advance(1_000_000)
    outcomes = [fact.payload.outcome for fact in agent.facts("pods-exited") if isinstance(fact.payload, PodsExited)]
    assert len(outcomes) == 200
    assert 30 <= outcomes.count(PodsOutcome.FAILED) <= 70


def test_a_stop_ends_running_pods_and_says_how_long_they_ran(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1000.0)
    agent.launch(wanted)
    agent.advance(10)
    started = agent.facts("pods-started")[0]
    stop = agent.stop(wanted)
    agent.advance(1)
    ended = exit_of(agent)
    assert ended.outcome is PodsOutcome.STOPPED
    assert ended.ran_s == seconds_between(started.time, stop.time)
    assert agent.facts("pods-exited")[0].causes == (stop.id,)


def test_a_stop_before_the_start_ends_what_never_ran(agent: VirtualAgent) -> None:
    wanted = job(1)
    agent.launch(wanted)
    agent.stop(wanted)
    agent.advance(100)
    assert agent.told(wanted.id) == ["pods-exited"]
    assert (exit_of(agent).outcome, exit_of(agent).ran_s) == (PodsOutcome.STOPPED, 0.0)


def test_a_stop_that_comes_after_the_end_changes_nothing(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1.0)
    agent.launch(wanted)
    agent.advance(60)
    agent.stop(wanted)
    agent.advance(60)
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]
    assert agent.core.anomalies == 0, "stop and exit may pass each other"


def test_an_end_that_came_before_the_stop_stands_though_it_was_not_told_yet(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=5.0, exit_code=0)
    agent.launch(wanted)
    agent.advance(3)
    assert agent.told(wanted.id) == ["pods-started"]
    agent.now = type(agent.now)(agent.now + 10**10)  # the agent was away for 10 s
    agent.stop(wanted)
    agent.settle()
    assert exit_of(agent).outcome is PodsOutcome.SUCCEEDED


def test_a_start_that_is_told_late_does_not_prolong_the_run(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=12.0, exit_code=0)
    agent.launch(wanted)
    placed_at = agent.now
    agent.now = Instant(agent.now + 10 * NS_PER_S)  # the agent was away
    agent.advance(20)
    ended = agent.facts("pods-exited")[0]
    assert seconds_between(placed_at, ended.time) < 14.0
    assert exit_of(agent).ran_s == 12.0


def test_a_retry_is_a_new_attempt_with_pods_of_its_own(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1.0, exit_code=1)
    agent.launch(wanted)
    agent.advance(60)
    agent.place(wanted, attempt=2)
    agent.advance(60)
    attempts = [(f.name, f.payload.attempt) for f in agent.log if isinstance(f.payload, PodsStarted | PodsExited)]
    assert attempts == [("pods-started", 1), ("pods-exited", 1), ("pods-started", 2), ("pods-exited", 2)]


def test_a_finished_job_is_forgotten(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1.0)
    agent.launch(wanted)
    agent.advance(60)
    agent.finish(wanted)
    assert (agent.core.jobs, agent.core.running) == ({}, {})
    assert agent.core.slots == {}


@pytest.mark.parametrize("times", [2, 3])
def test_the_same_placement_again_makes_no_pods_twice(agent: VirtualAgent, times: int) -> None:
    wanted = job(1, run_s=1.0)
    agent.route(wanted)
    for _ in range(times):
        agent.place(wanted)
    agent.advance(60)
    agent.place(wanted)
    agent.advance(60)
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]
    assert agent.core.anomalies == times, "each repetition is counted"


def test_a_terminal_fact_over_living_pods_is_counted_and_ends_them(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1000.0)
    agent.launch(wanted)
    agent.advance(10)
    agent.finish(wanted, "failed")
    agent.advance(1)
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]
    assert agent.core.anomalies == 1
    assert agent.core.jobs == {}


def test_events_of_one_moment_are_told_in_one_decision(agent: VirtualAgent) -> None:
    """Every decision that says something costs the log a guarded append: 4,000 starts must not be 4,000 of them."""
    for number in range(200):
        agent.launch(job(number))
    wakeups = 0
    end = agent.now + 2 * 10**9
    while (wakeup := agent.core.next_wakeup()) is not None and wakeup <= end:
        agent.now = wakeup
        agent.settle()
        wakeups += 1
    assert len(agent.facts("pods-started")) == 200
    assert wakeups <= 40, "at most 20 a second"


def test_start_times_vary_around_the_median() -> None:
    agent = VirtualAgent(behaviour=QUICK)
    agent.settle()
    for number in range(400):
        agent.launch(job(number))
    began = agent.now
    agent.advance(5)
    delays = sorted(seconds_between(began, fact.time) for fact in agent.facts("pods-started"))
    assert delays[0] < 0.45
    assert delays[200] == pytest.approx(0.5, abs=0.1)
    assert delays[-1] > 0.6
