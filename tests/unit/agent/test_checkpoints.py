"""What survives a run: checkpoints while it runs and on notice, and the work that a later run need not do again."""

import pytest

from kit.agent import VirtualAgent, job
from muster.core import NS_PER_S, seconds_between
from muster.schemas.facts.job import PodsExited, PodsOutcome, StopReason
from muster.schemas.job import Checkpointing, Job

SAVES = Checkpointing(interval_s=100.0, restart_s=20.0)


@pytest.fixture
def agent() -> VirtualAgent:
    agent = VirtualAgent()
    agent.settle()
    return agent


def exits(agent: VirtualAgent) -> list[PodsExited]:
    return [fact.payload for fact in agent.facts("pods-exited") if isinstance(fact.payload, PodsExited)]


def launched(agent: VirtualAgent, wanted: Job) -> Job:
    """Its pods run."""
    agent.launch(wanted)
    agent.advance(5)
    assert agent.told(wanted.id) == ["pods-started"]
    return wanted


def preempt(agent: VirtualAgent, wanted: Job, *, grace_s: float, attempt: int = 1) -> None:
    agent.stop(wanted, attempt=attempt, reason=StopReason.PREEMPTED, grace_s=grace_s)
    agent.advance(grace_s + 1)


def test_a_running_job_saves_its_work_about_every_interval(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=1_000.0, checkpointing=SAVES))
    agent.advance(1_000)
    started, *saved = [f.time for f in agent.log if f.name in ("pods-started", "checkpointed")]
    assert 9 <= len(saved) <= 10
    gaps = [seconds_between(before, at) for before, at in zip((started, *saved), saved, strict=False)]
    assert all(94.0 < gap < 106.0 for gap in gaps)
    assert len({round(gap, 1) for gap in gaps}) > 3, "not all at one beat"
    assert agent.told(wanted.id)[-1] == "pods-exited"


def test_a_job_that_does_not_say_that_it_saves_tells_of_no_checkpoint(agent: VirtualAgent) -> None:
    launched(agent, job(1, run_s=10_000.0))
    agent.advance(10_000)
    assert agent.facts("checkpointed") == []


def test_however_often_a_job_wants_to_save_the_log_hears_of_it_every_few_seconds(agent: VirtualAgent) -> None:
    launched(agent, job(1, run_s=60.0, checkpointing=Checkpointing(interval_s=0.001)))
    agent.advance(60)
    assert 10 <= len(agent.facts("checkpointed")) <= 13


def test_a_preempted_job_saves_within_the_grace_and_goes_on_from_there(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=100.0, exit_code=0, checkpointing=SAVES))
    agent.advance(60)
    preempt(agent, wanted, grace_s=30.0)
    agent.place(wanted, attempt=2)
    agent.advance(200)
    first, second = exits(agent)
    assert (first.outcome, second.outcome) == (PodsOutcome.STOPPED, PodsOutcome.SUCCEEDED)
    assert second.ran_s == pytest.approx(100.0 - first.ran_s + SAVES.restart_s, abs=0.1)


def test_a_job_that_does_not_save_starts_anew(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=100.0, exit_code=0))
    agent.advance(60)
    preempt(agent, wanted, grace_s=30.0)
    agent.place(wanted, attempt=2)
    agent.advance(200)
    assert exits(agent)[1].ran_s == 100.0


def test_a_job_that_does_not_save_exits_at_the_notice(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=100.0))
    stop = agent.stop(wanted, grace_s=30.0)
    agent.advance(1)
    (exit_fact,) = agent.facts("pods-exited")
    assert exit_fact.time <= stop.time + NS_PER_S // 10


def test_what_was_done_since_the_last_checkpoint_is_lost_without_grace(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=200.0, exit_code=0, checkpointing=SAVES))
    agent.advance(150)
    preempt(agent, wanted, grace_s=0.0)
    started, saved = agent.facts("pods-started")[0], agent.facts("checkpointed")[0]
    agent.place(wanted, attempt=2)
    agent.advance(300)
    kept_s = seconds_between(started.time, saved.time)
    assert exits(agent)[1].ran_s == pytest.approx(200.0 - kept_s + SAVES.restart_s, abs=0.01)


def test_coming_back_is_not_work(agent: VirtualAgent) -> None:
    """A run that is stopped while it still comes back saves nothing, and loses nothing of what was saved before."""
    wanted = launched(agent, job(1, run_s=100.0, exit_code=0, checkpointing=SAVES))
    agent.advance(60)
    preempt(agent, wanted, grace_s=30.0)
    agent.place(wanted, attempt=2)
    agent.advance(8)
    preempt(agent, wanted, grace_s=5.0, attempt=2)
    agent.place(wanted, attempt=3)
    agent.advance(200)
    first, second, third = exits(agent)
    assert second.ran_s < SAVES.restart_s
    assert third.ran_s == pytest.approx(100.0 - first.ran_s + SAVES.restart_s, abs=0.1)


def test_the_work_of_several_runs_adds_up(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=1_000.0, exit_code=0, checkpointing=SAVES))
    for attempt in range(1, 4):
        agent.advance(200)
        preempt(agent, wanted, grace_s=30.0, attempt=attempt)
        agent.place(wanted, attempt=attempt + 1)
        agent.advance(5)
    agent.advance(1_000)
    ran_s = sum(one.ran_s for one in exits(agent))
    assert ran_s == pytest.approx(1_000.0 + 3 * SAVES.restart_s, abs=0.5)


def test_a_loss_of_the_node_within_the_grace_takes_what_was_not_saved(agent: VirtualAgent) -> None:
    wanted = launched(agent, job(1, run_s=1_000.0, checkpointing=SAVES))
    agent.advance(50)
    agent.stop(wanted, reason=StopReason.PREEMPTED, grace_s=30.0)
    agent.write_loss("gpu-0001")
    agent.advance(60)
    (ended,) = exits(agent)
    assert (ended.outcome, ended.node) == (PodsOutcome.NODE_LOST, "gpu-0001")
    assert agent.facts("checkpointed") == []


def test_a_stop_before_the_start_has_nothing_to_save(agent: VirtualAgent) -> None:
    wanted = job(1, checkpointing=SAVES)
    agent.launch(wanted)
    agent.stop(wanted, grace_s=30.0)
    agent.advance(60)
    assert agent.told(wanted.id) == ["pods-exited"]
