"""Nodes that the scaler adds and removes, and devices that the composer attaches and detaches, as the agent tells."""

from dataclasses import replace

import pytest

from kit.agent import QUICK, job
from kit.agent_scaling import GROUPS, TRACE, Scaled, scaled
from muster.fabric.layout import device_uuids, machine_id
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.scale import ProvisionFailed
from muster.schemas.job import Slot


@pytest.fixture
def world() -> Scaled:
    return scaled()


def on(node: str, *devices: int) -> Slot:
    return Slot(group=0, replica=0, node=node, devices=devices, gpu_milli=1000)


def test_the_nodes_of_the_first_day_join_beside_the_fleet(world: Scaled) -> None:
    assert list(world.agent.core.nodes) == ["gpu-0001", "workers-0001", "workers-0002", "plain-0001"]
    worker, plain = world.node("workers-0001"), world.node("plain-0001")
    assert (worker.group, worker.machine, worker.scale) == ("workers", machine_id("workers-0001"), "")
    assert worker.gpu_uuids == device_uuids("workers-0001", 1)
    assert (worker.gpu_model, worker.device_domains) == ("A100", ())
    assert worker.domains == (("rack", "workers-r0"),)
    assert (plain.machine, len(plain.gpu_uuids), plain.gpu_model) == ("", 4, "H100")
    assert plain.device_domains


def test_a_group_stands_in_racks_of_its_own() -> None:
    groups = replace(
        GROUPS, by_name={"workers": GROUPS.by_name["workers"].model_copy(update={"nodes": 3, "rack_size": 2})}
    )
    world = scaled(groups=groups)
    racks = [dict(world.node(f"workers-{at:04d}").domains)["rack"] for at in (1, 2, 3)]
    assert racks == ["workers-r0", "workers-r0", "workers-r1"]


def test_an_added_node_joins_after_its_provisioning_and_tells_why(world: Scaled) -> None:
    scale = world.add("workers-0003")
    world.agent.advance(29.9)
    assert "workers-0003" not in world.agent.core.nodes
    world.agent.advance(0.2)
    joined = world.agent.facts("joined")[-1]
    assert (joined.subject_id, joined.trace, joined.causes) == ("workers-0003", TRACE, (world.chosen[scale][0].id,))
    assert (world.node("workers-0003").scale, world.node("workers-0003").present) == (scale, {})
    world.end(scale)
    world.agent.advance(600)
    assert world.agent.told("workers-0003") == ["joined"]


def test_an_ordinary_node_that_is_added_brings_its_devices(world: Scaled) -> None:
    world.add("plain-0002", group="plain")
    world.agent.advance(20)
    assert world.node("plain-0002").gpu_uuids == device_uuids("plain-0002", 4)


def test_a_share_of_nodes_does_not_come() -> None:
    world = scaled(QUICK.model_copy(update={"provision_failure_share": 0.5}))
    scales = [world.add(f"workers-{index:04d}") for index in range(3, 43)]
    world.agent.advance(30)
    failed = [fact for fact in world.agent.facts("provision-failed") if isinstance(fact.payload, ProvisionFailed)]
    assert 10 <= len(failed) <= 30
    assert len(failed) + sum(name.startswith("workers") for name in world.agent.core.nodes) == 42
    first = failed[0]
    assert isinstance(first.payload, ProvisionFailed)
    assert first.payload.scale in scales
    assert (first.trace, first.causes) == (TRACE, (world.chosen[first.payload.scale][0].id,))
    assert world.agent.core.anomalies == 0


def test_a_node_leaves_only_after_the_scheduler_withheld_it_for_that_choice(world: Scaled) -> None:
    scale = world.remove("workers-0002")
    world.agent.advance(600)
    world.withhold(scale, request_id="somebody else's")
    world.agent.advance(600)
    assert world.agent.told("workers-0002") == ["joined"]
    world.withhold(scale)
    world.agent.advance(4.9)
    assert world.agent.told("workers-0002") == ["joined"]
    world.agent.advance(0.2)
    assert world.agent.told("workers-0002") == ["joined", "left"]
    assert world.agent.facts("left")[0].trace == TRACE


def test_a_removal_that_was_given_up_does_not_happen(world: Scaled) -> None:
    scale = world.remove("workers-0002")
    world.withhold(scale)
    world.end(scale, failed=True)
    world.agent.advance(600)
    assert world.agent.told("workers-0002") == ["joined"]


def test_a_wish_for_a_node_that_was_given_up_brings_none(world: Scaled) -> None:
    world.end(world.add("workers-0003"), failed=True)
    world.agent.advance(600)
    assert "workers-0003" not in world.agent.core.nodes


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_a_removed_node_of_the_first_day_stays_away_after_a_crash(world: Scaled, from_checkpoint: bool) -> None:
    scale = world.remove("workers-0002")
    world.withhold(scale)
    world.agent.advance(10)
    world.end(scale)
    if from_checkpoint:
        world.agent.recover_from_checkpoint([*world.agent.core.snapshot(), *world.states()])
    else:
        world.agent.crash()
    world.agent.advance(600)
    assert world.agent.told("workers-0002") == ["joined", "left"]


def test_a_node_of_the_first_day_that_came_again_is_there_after_a_checkpoint(world: Scaled) -> None:
    scale = world.remove("workers-0002")
    world.withhold(scale)
    world.agent.advance(10)
    world.end(scale)
    world.end(world.add("workers-0002"), failed=True)
    world.add("workers-0002")
    world.agent.advance(40)
    for states in (lambda drafts: drafts, lambda drafts: drafts[::-1]):
        world.agent.recover_from_checkpoint(states([*world.agent.core.snapshot(), *world.states()]))
        world.agent.advance(600)
    assert world.agent.told("workers-0002") == ["joined", "left", "joined"]


def test_a_node_that_comes_shows_only_devices_that_had_time_to_appear(world: Scaled) -> None:
    world.add("workers-0003")
    world.attach("workers-0003", "early")
    world.agent.advance(25)
    world.attach("workers-0003", "late")
    world.agent.advance(5)
    assert list(world.node("workers-0003").present.values()) == ["early"]
    world.agent.advance(5)
    assert list(world.node("workers-0003").present.values()) == ["early", "late"]


def test_devices_of_one_moment_take_the_same_places_whatever_the_order_of_a_checkpoint(world: Scaled) -> None:
    world.add("workers-0003")
    for uuid in ("b", "a", "c"):
        world.attach("workers-0003", uuid)
    world.agent.recover_from_checkpoint([*world.agent.core.snapshot(), *world.states()][::-1])
    world.agent.advance(40)
    assert list(world.node("workers-0003").present.values()) == ["a", "b", "c"]


def test_an_attached_device_is_told_once_its_node_shows_it(world: Scaled) -> None:
    order = world.attach("workers-0001", "GPU-9")
    world.agent.advance(9.9)
    assert len(world.node("workers-0001").present) == 1
    world.agent.advance(0.2)
    joined = world.agent.facts("joined")[-1]
    assert isinstance(joined.payload, NodeJoined)
    assert joined.payload.present == {0: device_uuids("workers-0001", 1)[0], 1: "GPU-9"}
    assert (joined.causes, joined.trace) == ((world.attached[order][0].id,), TRACE)


def test_a_detached_device_is_gone_at_once(world: Scaled) -> None:
    order = world.attach("workers-0001", "GPU-9")
    world.agent.advance(20)
    detached = world.detach(order)
    world.agent.settle()
    joined = world.agent.facts("joined")[-1]
    assert (joined.causes, joined.trace) == ((detached.id,), TRACE)
    assert list(world.node("workers-0001").present.values()) == [device_uuids("workers-0001", 1)[0]]


def test_a_device_of_another_model_is_not_shown(world: Scaled) -> None:
    world.attach("workers-0001", "GPU-9", model="T4")
    world.agent.advance(600)
    assert world.agent.told("workers-0001") == ["joined"]


def test_a_device_on_a_node_without_a_fabric_is_not_shown(world: Scaled) -> None:
    world.attach("gpu-0001", "GPU-9", model="H100")
    world.agent.advance(600)
    assert world.agent.told("gpu-0001") == ["joined"]


def test_what_runs_on_a_device_that_is_taken_away_ends_as_by_a_lost_node(world: Scaled) -> None:
    order = world.attach("workers-0001", "GPU-9")
    world.agent.advance(20)
    victim, beside = job(1, run_s=1000.0), job(2, run_s=1000.0)
    world.agent.launch(victim, on("workers-0001", 1), on("gpu-0001", 0))
    world.agent.launch(beside, on("workers-0001", 0))
    world.agent.advance(5)
    detached = world.detach(order)
    world.agent.advance(1)
    (exited,) = world.agent.facts("pods-exited")
    assert isinstance(exited.payload, PodsExited)
    assert (exited.subject_id, exited.payload.outcome) == (victim.id, PodsOutcome.NODE_LOST)
    assert exited.payload.node == "workers-0001"
    assert exited.causes == (detached.id,)


def test_a_pod_names_the_device_that_it_runs_on(world: Scaled) -> None:
    world.attach("workers-0001", "GPU-9")
    world.agent.advance(20)
    world.agent.launch(job(1), on("workers-0001", 1))
    world.agent.advance(5)
    (started,) = world.agent.facts("pods-started")
    assert started.payload.model_dump()["device_uuids"] == (("GPU-9",),)
