"""How the agent tells of nodes, and what their loss does to jobs."""

import pytest

from kit.agent import QUICK, VirtualAgent, fleet_of, job, slot
from muster.agent.core.behaviour import Behaviour
from muster.core import Draft
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.node import NodeJoined, NodeLost, NodeReturned
from muster.schemas.job import Slot

FAILING = Behaviour(seed=11, run_s=1e9, node_failures_per_day=24.0, node_repair_s=60.0)


def lose(agent: VirtualAgent, node: str) -> str:
    return agent.write("agent", "node", node, "lost", NodeLost(reason="test")).id


def test_every_node_joins_once() -> None:
    agent = VirtualAgent(fleet=fleet_of(nodes=1750))
    agent.settle()
    assert len(agent.facts("joined")) == 1750
    assert len({fact.subject_id for fact in agent.facts("joined")}) == 1750
    agent.crash()
    agent.advance(60)
    assert len(agent.facts("joined")) == 1750, "what the log has is not told again"


def test_a_node_that_changed_while_the_agent_was_away_joins_again_as_it_is_now() -> None:
    agent = VirtualAgent(fleet=fleet_of(gpus=4))
    agent.settle()
    agent.new_core = VirtualAgent(fleet=fleet_of(gpus=8)).new_core
    agent.crash()
    agent.settle()
    newest = agent.facts("joined")[-1].payload
    assert isinstance(newest, NodeJoined)
    assert len(newest.gpu_uuids) == 8
    assert len(agent.facts("joined")) == 4


def test_a_node_that_is_no_longer_there_leaves_and_ends_what_ran_on_it() -> None:
    agent = VirtualAgent(fleet=fleet_of(nodes=2))
    agent.settle()
    wanted = job(1, run_s=1000.0)
    agent.launch(wanted, slot(2))
    agent.advance(5)
    agent.new_core = VirtualAgent(fleet=fleet_of(nodes=1)).new_core
    agent.crash()
    agent.advance(5)
    assert agent.told("gpu-0002") == ["joined", "left"]
    assert agent.told(wanted.id) == ["pods-started", "pods-exited"]


def test_the_loss_of_one_node_ends_the_whole_gang() -> None:
    agent = VirtualAgent()
    agent.settle()
    gang, other = job(1, run_s=1000.0), job(2, run_s=1000.0)
    agent.launch(gang, slot(1), Slot(group=0, replica=1, node="gpu-0002", devices=(0,), gpu_milli=1000))
    agent.launch(other, slot(2, 1))
    agent.advance(10)
    lost = lose(agent, "gpu-0001")
    agent.advance(1)
    (exited,) = agent.facts("pods-exited")
    assert isinstance(exited.payload, PodsExited)
    assert (exited.subject_id, exited.payload.outcome, exited.payload.node) == (
        gang.id, PodsOutcome.NODE_LOST, "gpu-0001",
    )  # fmt: skip
    assert exited.causes == (lost,)


@pytest.mark.parametrize("node", [1, 99])
def test_a_placement_that_passed_the_loss_of_its_node_ends_at_once(node: int) -> None:
    """99 is a node that nobody ever saw."""
    agent = VirtualAgent()
    agent.settle()
    lose(agent, "gpu-0001")
    wanted = job(1)
    agent.launch(wanted, slot(node))
    agent.advance(1)
    (exited,) = agent.facts("pods-exited")
    assert isinstance(exited.payload, PodsExited)
    assert exited.payload.outcome is PodsOutcome.NODE_LOST


@pytest.mark.parametrize("joined", [True, False])
def test_the_loss_of_a_node_that_is_gone_already_is_only_counted(joined: bool) -> None:
    agent = VirtualAgent()
    if joined:
        agent.settle()
        lose(agent, "gpu-0001")
    agent.launch(job(1), slot(1))  # pods are placed there, whether it joined or not
    lose(agent, "gpu-0001")
    assert agent.core.anomalies == 1
    node = agent.core.nodes.get("gpu-0001")
    assert (node.losses if node is not None else 0) == int(joined)


def test_a_stop_during_the_loss_does_not_end_the_pods_twice() -> None:
    agent = VirtualAgent()
    agent.settle()
    wanted = job(1, run_s=1000.0)
    agent.launch(wanted)
    agent.advance(10)
    lost = lose(agent, "gpu-0001")
    agent.stop(wanted)
    agent.advance(1)
    (exited,) = agent.facts("pods-exited")
    assert exited.causes == (lost,)
    assert isinstance(exited.payload, PodsExited)
    assert exited.payload.outcome is PodsOutcome.NODE_LOST


def test_nodes_fail_by_rate_and_return_after_repair() -> None:
    agent = VirtualAgent(fleet=fleet_of(nodes=50), behaviour=FAILING)
    agent.advance(3600)
    lost = len(agent.facts("lost"))
    assert 30 <= lost <= 75, "50 nodes, one failure an hour each"
    assert lost - len(agent.facts("returned")) <= 5
    for name in agent.core.nodes:
        turns = agent.told(name)[1:]
        assert turns == (["lost", "returned"] * len(turns))[: len(turns)], "they take turns"


def test_a_node_lost_by_hand_returns_after_its_repair() -> None:
    agent = VirtualAgent(behaviour=QUICK)
    agent.settle()
    lose(agent, "gpu-0001")
    agent.advance(119)
    assert agent.facts("returned") == []
    agent.advance(2)
    assert isinstance(agent.facts("returned")[0].payload, NodeReturned)


def test_without_a_rate_and_without_jobs_nothing_ever_wakes_it() -> None:
    agent = VirtualAgent()
    agent.settle()
    assert agent.core.next_wakeup() is None


def test_a_fleet_bigger_than_one_decision_joins_in_several() -> None:
    agent = VirtualAgent(fleet=fleet_of(nodes=2500, gpus=1))
    first: list[Draft] = agent.core.decide(agent.now)
    agent.settle()
    assert len(first) == 1000
    assert len(agent.core.nodes) == 2500
