"""Muster's own node autoscaler: which group it would grow for a gang, and which nodes it calls unneeded."""

import pytest

from kit.scaler_state import CDI, PLAIN, ScalerState, config
from muster.core import Instant
from muster.scaler.core.autoscaler import NodeRefused, NodeUnneeded, NodeWanted, RemovalBlocked
from muster.scaler.core.jobs import Waiting, waiting_of
from muster.schemas.facts.node import NodeLost
from muster.schemas.facts.scale import AutoscalerSignal, ScaleChosen


def waiting(world: ScalerState, name: str, **spec: object) -> Waiting:
    job_id = world.waits(name, **spec)
    world.at_second(world.second)
    return waiting_of(world.state.jobs.records[job_id])


def test_a_job_that_lacks_memory_wants_a_node_of_the_group_that_draws_least() -> None:
    world = ScalerState(
        config(
            CDI.model_copy(update={"idle_w": 300.0}),
            PLAIN.model_copy(update={"idle_w": 100.0, "gpus": 0, "gpu_models": ()}),
        )
    )
    found = world.policies.node_demand.wants(waiting(world, "big", memory_mib=60_000), world.now)
    assert isinstance(found, NodeWanted)
    assert (found.group, found.nodes) == ("plain", 1)


def test_a_composable_group_is_taken_to_have_the_most_gpus_a_node_can_have() -> None:
    world = ScalerState(config(CDI))
    world.node("cdi-0001", gpus=1)
    world.runs("busy", "cdi-0001", 0)
    found = world.policies.node_demand.wants(waiting(world, "four", gpus=4), world.now)
    assert found == NodeWanted((world.log[-1].subject_id,), "cdi", 1, world.log[-1].id)


@pytest.mark.parametrize("replicas", [2, 3, 4, 6, 8])
def test_a_gang_wants_as_many_nodes_as_it_needs_beside_what_is_free(replicas: int) -> None:
    world = ScalerState(config(CDI.model_copy(update={"nodes_max": 9})))
    world.node("cdi-0001", gpus=4)
    found = world.policies.node_demand.wants(waiting(world, "gang", replicas=replicas, gpus=4), world.now)
    assert isinstance(found, NodeWanted)
    assert found.nodes == replicas - 1


def test_asking_leaves_the_fleet_as_it_was() -> None:
    world = ScalerState(config(CDI))
    world.node("cdi-0001", gpus=4)
    asked = waiting(world, "gang", replicas=3, gpus=4)
    ledger = world.state.cluster.fleet.ledger
    before = set(ledger.nodes), ledger.totals(), {key: tuple(state.names) for key, state in ledger.states.items()}
    world.policies.node_demand.wants(asked, world.now)
    after = set(ledger.nodes), ledger.totals(), {key: tuple(ledger.states[key].names) for key in before[2]}
    assert after == before


def test_a_gang_that_must_stand_in_one_rack_wants_nodes_that_share_one() -> None:
    topology = {"level": "rack", "required": True}
    for rack_size, is_wanted in ((4, True), (1, False)):
        world = ScalerState(config(CDI.model_copy(update={"rack_size": rack_size})))
        found = world.policies.node_demand.wants(
            waiting(world, "close", replicas=2, gpus=4, topology=topology), world.now
        )
        assert isinstance(found, NodeWanted) is is_wanted


def test_new_nodes_stand_in_the_rack_of_their_neighbours() -> None:
    world = ScalerState(config(CDI))
    joined = world.description("cdi-0001", (), model="A100", group="cdi")
    placed = joined.model_copy(update={"domains": (("block", "b7"), ("rack", "r9"))})
    world.write("agent", "node", "cdi-0001", "joined", placed)
    narrow = CDI.model_copy(update={"rack_size": 2})
    assert world.state.cluster.expected_domains(narrow, "cdi-0002") == (("block", "b7"), ("rack", "r9"))
    assert world.state.cluster.expected_domains(narrow, "cdi-0003") == (("rack", "cdi-r1"),)


def test_a_group_at_its_limit_refuses_with_the_numbers() -> None:
    world = ScalerState(config(CDI.model_copy(update={"nodes_max": 1})))
    world.node("cdi-0001", gpus=1)
    world.runs("busy", "cdi-0001", 0)
    found = world.policies.node_demand.wants(waiting(world, "four", gpus=4), world.now)
    assert isinstance(found, NodeRefused)
    assert (found.group, found.reason) == ("cdi", "group cdi has 1 of at most 1 nodes, 1 more would be needed")


def test_nodes_that_are_on_their_way_count() -> None:
    world = ScalerState(config(CDI.model_copy(update={"nodes_max": 1})))
    adding = ScaleChosen(case=1, group="cdi", node="cdi-0001")
    world.chosen("s000001", "node-add-chosen", adding)
    assert isinstance(world.policies.node_demand.wants(waiting(world, "four", gpus=4), world.now), NodeRefused)


def test_a_group_to_which_a_node_could_not_be_added_is_left_alone_for_a_while() -> None:
    world = ScalerState(config(CDI, delay_after_failure_s=180.0))
    adding = ScaleChosen(case=1, group="cdi", node="cdi-0001")
    world.chosen("s000001", "node-add-chosen", adding)
    world.ended("s000001", failed=True)
    asked = waiting(world, "four", gpus=4)
    world.at_second(179)
    found = world.policies.node_demand.wants(asked, world.now)
    assert isinstance(found, NodeRefused)
    assert "could not be added a moment ago" in found.reason
    world.at_second(180)
    assert isinstance(world.policies.node_demand.wants(asked, world.now), NodeWanted)


def test_what_no_groups_nodes_can_ever_serve_is_refused_by_all_of_them() -> None:
    world = ScalerState(config(CDI, PLAIN))
    found = world.policies.node_demand.wants(waiting(world, "huge", memory_mib=64_001), world.now)
    assert isinstance(found, NodeRefused)
    assert (found.group, found.reason) == (
        "",
        "it would not fit with more nodes of cdi (spec-fixed), plain (spec-set)",
    )


def test_an_empty_node_is_unneeded_after_its_time_and_not_while_it_is_lost() -> None:
    world = ScalerState(config(CDI))
    world.node("cdi-0001")
    assert list(world.policies.node_surplus.unneeded(world.at_second(59))) == []
    assert list(world.policies.node_surplus.unneeded(world.at_second(60))) == [
        NodeUnneeded("cdi-0001", Instant(world.log[0].time))
    ]
    world.write("agent", "node", "cdi-0001", "lost", NodeLost())
    assert list(world.policies.node_surplus.unneeded(world.at_second(61))) == []


def test_the_cluster_autoscaler_is_followed_instead_when_the_mode_says_so() -> None:
    world = ScalerState(config(CDI, mode="cluster-autoscaler"))
    world.node("cdi-0001", gpus=1)
    asked = waiting(world, "four", gpus=4)
    assert world.policies.node_demand.of_job(asked, world.now) is None
    world.write("agent", "autoscaler", "cdi", "node-refused", AutoscalerSignal(jobs=(asked.job_id,), reason="no quota"))
    world.write("agent", "autoscaler", "cdi-0001", "removal-blocked", AutoscalerSignal(reason="a pod may not move"))
    assert world.policies.node_demand.of_job(asked, world.now) == NodeRefused(
        (asked.job_id,), "cdi", "no quota", world.log[-2].id
    )
    (blocked,) = world.policies.node_surplus.of_nodes(world.at_second(500))
    assert isinstance(blocked, RemovalBlocked)
    assert blocked.reason == "a pod may not move"


def test_nobody_is_followed_when_the_mode_is_off() -> None:
    world = ScalerState(config(CDI, mode="off"))
    world.node("cdi-0001", gpus=1)
    assert world.policies.node_demand.of_job(waiting(world, "four", gpus=4), world.now) is None
    assert list(world.policies.node_surplus.of_nodes(world.at_second(500))) == []
