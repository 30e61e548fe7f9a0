"""Nodes of a real cluster: what the log is told of them, and when."""

from dataclasses import replace

import pytest

from muster.agent.core.cluster import (
    NodeClosedSeen,
    NodeLeftSeen,
    NodeLostSeen,
    NodeOpenSeen,
    NodeReturnedSeen,
    NodeSeen,
)
from muster.agent.core.kubernetes.describing import Devices, NodePolicy, described
from muster.agent.core.kubernetes.views import PodView, Requests
from muster.schemas.facts.node import NodeJoined
from unit.agent.kubernetes.rig import GPU, Rig, failed, key, node, order, pod

REQUESTS = Requests(0, 0, ((GPU, 1),))


def foreign(name: str, *, on: str = "n0", gpus: int = 0, cpu_milli: int = 0) -> PodView:
    return PodView("default", name, f"uid-{name}", on, "Running", requests=Requests(cpu_milli, 0, ((GPU, gpus),)))


def seen_description(rig: Rig) -> NodeJoined:
    (seen,) = rig.observe()
    assert isinstance(seen, NodeSeen)
    rig.cluster.acknowledge(seen, rig.now)
    return seen.description


def test_a_node_joins_when_it_is_first_ready() -> None:
    rig = Rig().ready(node("n1"))
    rig.cluster.node_seen(node("n0", ready=False), rig.now)
    assert rig.observe() == ()
    rig.cluster.node_seen(node("n0"), rig.now)
    assert len(seen_description(rig).gpu_uuids) == 8


def test_a_node_is_lost_only_after_it_was_not_ready_for_long_enough() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.node_seen(node("n0", ready=False, not_ready="no heartbeat"), rig.now)
    rig.pass_time(39.0)
    assert rig.observe() == ()
    rig.pass_time(1.0)
    assert rig.observe() == (NodeLostSeen("n0", "no heartbeat"),)


def test_it_says_when_a_node_will_be_lost() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.node_seen(node("n0", ready=False), rig.now)
    rig.cluster.settle(rig.now)
    rig_next = rig.cluster.next_change()
    assert rig_next is not None
    assert (rig_next - rig.now) / 1e9 == 40.0


def test_a_node_that_flaps_within_the_time_is_not_lost() -> None:
    rig = Rig().ready(node("n0"))
    for _ in range(5):
        rig.cluster.node_seen(node("n0", ready=False), rig.now)
        rig.pass_time(30.0)
        rig.cluster.node_seen(node("n0"), rig.now)
        rig.pass_time(1.0)
    assert rig.observe() == ()


def test_a_lost_node_returns() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.acknowledge(NodeLostSeen("n0"), rig.now)
    assert rig.observe() == (NodeReturnedSeen("n0"),)


def test_a_node_whose_object_is_gone_has_left() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.node_gone("n0")
    (seen,) = rig.observe()
    assert isinstance(seen, NodeLeftSeen)


def test_nodes_of_the_log_have_not_left_before_all_were_seen() -> None:
    rig = Rig()
    rig.cluster.acknowledge(NodeSeen("n0", NodeJoined(cpu_milli=1, memory_mib=1)), rig.now)
    assert rig.observe() == ()


def test_what_pods_of_others_use_is_taken_off_and_given_back() -> None:
    rig = Rig().ready(node("n0"))
    rig.pass_time(2.0)
    rig.see(foreign("a", gpus=2, cpu_milli=500), foreign("b", gpus=1))
    told = seen_description(rig)
    assert (len(told.gpu_uuids), told.cpu_milli) == (5, 63_500)
    rig.pass_time(2.0)
    rig.see(replace(foreign("a", gpus=2), phase="Succeeded", end=failed(succeeded=True)))
    rig.lose(foreign("b", gpus=1))
    assert len(seen_description(rig).gpu_uuids) == 8


def test_many_changes_of_others_are_told_together_once_a_second() -> None:
    rig = Rig().ready(node("n0"))
    rig.pass_time(2.0)
    rig.see(foreign("a", cpu_milli=100))
    seen_description(rig)
    for number in range(20):
        rig.see(foreign(f"more-{number}", cpu_milli=100))
    assert rig.observe() == ()
    rig.pass_time(1.0)
    assert seen_description(rig).cpu_milli == 64_000 - 2_100


def test_pods_of_attempts_are_no_use_of_others() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.carry_out(order())
    rig.pass_time(2.0)
    rig.see(pod(key(), node="n0", requests=Requests(1000, 1000, ((GPU, 1),))))
    assert rig.observe() == ()


def test_pods_with_our_name_that_no_attempt_has_use_their_node() -> None:
    """Bound by their maker, or an orphan that still runs: the kubelet counts them, too."""
    rig = Rig().ready(node("n0"))
    rig.pass_time(2.0)
    rig.see(replace(foreign("a", gpus=2), scheduler="muster"), pod(key(attempt=9), node="n0", requests=REQUESTS))
    assert len(seen_description(rig).gpu_uuids) == 5


def test_a_closed_node_joins_when_it_is_open_also_when_it_comes_again() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.acknowledge(NodeClosedSeen("n0", "cordoned"), rig.now)
    rig.cluster.node_gone("n0")
    (left,) = rig.observe()
    rig.cluster.acknowledge(left, rig.now)
    rig.cluster.node_seen(node("n0", closed="cordoned"), rig.now)
    assert rig.observe() == ()
    rig.cluster.node_seen(node("n0"), rig.now)
    assert len(seen_description(rig).gpu_uuids) == 8
    assert rig.observe() == ()


def test_a_closed_node_is_asked_to_be_withheld_and_given_back_when_it_is_open() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.node_seen(node("n0", closed="cordoned"), rig.now)
    assert rig.observe() == (NodeClosedSeen("n0", "cordoned"),)
    rig.cluster.acknowledge(NodeClosedSeen("n0", "cordoned"), rig.now)
    assert rig.observe() == ()
    rig.cluster.node_seen(node("n0"), rig.now)
    assert rig.observe() == (NodeOpenSeen("n0"),)


@pytest.mark.parametrize(("reserved", "cpu_milli"), [(0, 62_000), (1, 62_000), (4, 60_000)])
def test_cpus_that_the_kubelet_reserved_already_are_not_taken_off_twice(reserved: int, cpu_milli: int) -> None:
    view = node("n0", allocatable=Requests(62_000, 1024), capacity_cpu_milli=64_000)
    told = described(view, policy=NodePolicy(reserved_cpus=reserved), devices=Devices())
    assert told.cpu_milli == cpu_milli


def test_a_node_is_described_by_its_labels() -> None:
    labels = (("muster.dev/rack", "r7"), ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"))
    policy = NodePolicy(models={"NVIDIA-H100-80GB-HBM3": "H100"}, levels=(("rack", "muster.dev/rack"),))
    told = described(node("n0", labels=labels), policy=policy, devices=Devices())
    assert (told.gpu_model, told.domains, told.kubelet_picks) == ("H100", (("rack", "r7"),), True)


def test_what_a_deposed_leader_saw_is_forgotten_and_what_the_log_has_is_not() -> None:
    rig = Rig().ready(node("n0"))
    rig.cluster.reset()
    assert rig.observe() == ()
    rig.ready(node("n0"))
    assert rig.observe() == ()


def turn_away(rig: Rig, attempt: int) -> None:
    """An attempt whose pod the kubelet of n0 will not have; its exit is acknowledged, and what is told beside it."""
    rig.cluster.carry_out(order(attempt=attempt))
    view = pod(key(attempt=attempt), node="n0", phase="Failed", end=failed("OutOfnvidia.com/gpu"))
    rig.see(view)
    rig.calls()


def test_a_node_that_turns_pods_away_gets_nothing_new_for_a_while() -> None:
    rig = Rig().ready(node("n0"))
    turn_away(rig, 1)
    closed, exited = rig.observe()
    assert isinstance(closed, NodeClosedSeen), "before the exit, so that the scheduler looks elsewhere"
    assert "OutOfnvidia.com/gpu" in closed.reason
    rig.cluster.acknowledge(closed, rig.now)
    rig.cluster.acknowledge(exited, rig.now)
    rig.pass_time(29.0)
    assert rig.observe() == ()
    rig.pass_time(1.0)
    assert rig.observe() == (NodeOpenSeen("n0"),)


def test_a_node_that_goes_on_turning_pods_away_is_left_alone_for_longer_each_time() -> None:
    rig = Rig().ready(node("n0"))
    for attempt, away_s in enumerate((30.0, 60.0, 120.0, 240.0, 480.0, 480.0), start=1):
        turn_away(rig, attempt)
        for seen in rig.observe():
            rig.cluster.acknowledge(seen, rig.now)
        rig.pass_time(away_s - 1.0)
        assert not any(isinstance(seen, NodeOpenSeen) for seen in rig.observe())
        rig.pass_time(1.0)
        (opened,) = (seen for seen in rig.observe() if isinstance(seen, NodeOpenSeen))
        rig.cluster.acknowledge(opened, rig.now)
