"""Elastic gangs: pods come and go while the others run on."""

import pytest

from kit.agent import VirtualAgent, job, slot
from muster.core import seconds_between
from muster.schemas.facts.job import PodsExited, PodsOutcome, PodsResized
from muster.schemas.job import Job


@pytest.fixture
def agent() -> VirtualAgent:
    agent = VirtualAgent()
    agent.settle()
    return agent


@pytest.fixture
def wanted(agent: VirtualAgent) -> Job:
    """A job whose pods run on both nodes."""
    wanted = job(1, run_s=1_000.0)
    agent.launch(wanted, slot(1, 0), slot(2, 0))
    agent.advance(5)
    return wanted


def where(agent: VirtualAgent, wanted: Job) -> list[str]:
    return [name for name, jobs in agent.core.slots.items() if wanted.id in jobs]


def test_a_job_shrinks_to_exactly_the_slots_it_is_left(agent: VirtualAgent, wanted: Job) -> None:
    asked = agent.resize(wanted, slot(1, 0))
    agent.advance(1)
    (told,) = agent.facts("pods-resized")
    assert (told.payload, told.causes, told.trace) == (PodsResized(attempt=1, slots=1), (asked.id,), wanted.trace)
    assert where(agent, wanted) == ["gpu-0001"]


def test_a_job_grows_when_its_new_pods_have_started(agent: VirtualAgent, wanted: Job) -> None:
    asked = agent.resize(wanted, slot(1, 0), slot(2, 0), slot(2, 1))
    agent.advance(5)
    (told,) = agent.facts("pods-resized")
    assert told.payload == PodsResized(attempt=1, slots=3)
    assert 0.1 < seconds_between(asked.time, told.time) < 2.0


def test_the_run_goes_on_while_it_is_resized(agent: VirtualAgent, wanted: Job) -> None:
    agent.resize(wanted, slot(1, 0), slot(2, 0), slot(2, 1))
    agent.advance(2_000)
    (ended,) = agent.facts("pods-exited")
    assert isinstance(ended.payload, PodsExited)
    assert ended.payload.ran_s == 1_000.0


@pytest.mark.parametrize("node", ["gpu-0001", "gpu-0002"])
def test_the_loss_of_a_node_on_the_way_ends_the_gang(agent: VirtualAgent, node: str) -> None:
    wanted = job(1, run_s=1_000.0)
    agent.launch(wanted, slot(1, 0))
    agent.advance(5)
    agent.resize(wanted, slot(2, 0))
    agent.write_loss(node)
    agent.advance(5)
    (ended,) = agent.facts("pods-exited")
    assert isinstance(ended.payload, PodsExited)
    assert (ended.payload.outcome, ended.payload.node) == (PodsOutcome.NODE_LOST, node)
    assert agent.facts("pods-resized") == []


def test_the_loss_of_a_node_that_was_left_means_nothing(agent: VirtualAgent, wanted: Job) -> None:
    agent.resize(wanted, slot(1, 0))
    agent.advance(1)
    agent.write_loss("gpu-0002")
    agent.advance(5)
    assert agent.facts("pods-exited") == []


def test_growing_onto_a_node_that_was_just_lost_ends_the_gang(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1_000.0)
    agent.launch(wanted, slot(1, 0))
    agent.advance(5)
    agent.write_loss("gpu-0002")
    agent.resize(wanted, slot(1, 0), slot(2, 0))
    agent.advance(5)
    (ended,) = agent.facts("pods-exited")
    assert isinstance(ended.payload, PodsExited)
    assert (ended.payload.outcome, ended.payload.node) == (PodsOutcome.NODE_LOST, "gpu-0002")


def test_a_resize_that_passed_the_exit_changes_nothing(agent: VirtualAgent) -> None:
    wanted = job(1, run_s=1.0)
    agent.launch(wanted)
    agent.advance(60)
    agent.resize(wanted, slot(2, 0))
    agent.advance(60)
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]
    assert agent.core.anomalies == 0


def test_a_resize_of_another_attempt_is_counted(agent: VirtualAgent, wanted: Job) -> None:
    agent.resize(wanted, slot(1, 0), attempt=2)
    agent.advance(5)
    assert agent.facts("pods-resized") == []
    assert agent.core.anomalies == 1
