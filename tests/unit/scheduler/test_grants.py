"""Who may hold a node or device: released, withheld, lost, gone."""

import pytest

from kit.scheduler import VirtualScheduler, job
from kit.scheduler_yard import ask
from muster.schemas.facts.job import JobPlaced
from muster.schemas.facts.node import NodeLeft, NodeLost, WithholdWithdrawn
from muster.schemas.job import Phase, Slot


def leave(world: VirtualScheduler, name: str) -> None:
    world.write("agent", "node", name, "left", NodeLeft())
    del world.nodes[name]
    world.settle()


def test_a_node_is_used_only_when_it_was_released() -> None:
    world = VirtualScheduler(nodes=1)
    released = world.last("released", "n0")
    assert released.causes == (world.last("joined", "n0").id,)
    one = world.submit("one")
    assert world.last("placed", one.id).seq > released.seq


def test_nothing_new_is_placed_on_a_withheld_node_and_it_is_withheld_when_nothing_is_held() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    ask(world, "n0")
    world.settle()
    two = world.submit("two")
    assert world.phase(two) is Phase.QUEUED
    assert world.count("n0", "withheld") == 0
    world.exited(one)
    withheld = world.last("withheld", "n0")
    assert (withheld.payload.request_id, withheld.payload.forced, withheld.payload.holders) == ("r1", False, ())
    assert world.phase(two) is Phase.QUEUED
    assert world.count("n0", "withheld") == 1


def test_force_does_not_wait_and_tells_who_holds() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    ask(world, "n0", force=True)
    world.settle()
    withheld = world.last("withheld", "n0").payload
    assert (withheld.forced, withheld.holders) == (True, (one.id,))


def test_a_placement_that_was_under_way_when_the_request_came_is_waited_for() -> None:
    world = VirtualScheduler(nodes=1)
    one = job("one")
    world.route(one)
    drafts = world.core.decide(world.now)
    ask(world, "n0")
    for draft in drafts:
        world.append("scheduler", draft)
    world.settle()
    assert world.phase(one) is Phase.PLACED
    assert world.count("n0", "withheld") == 0
    world.exited(one)
    assert world.count("n0", "withheld") == 1


def test_a_withheld_device_takes_no_new_job_and_the_others_of_its_node_do() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    one = world.submit("one", gpus=2)
    ask(world, "n0-gpu-1", kind="device")
    world.settle()
    assert world.count("n0-gpu-1", "withheld") == 0
    world.exited(one)
    assert world.count("n0-gpu-1", "withheld") == 1
    two, three = world.submit("two"), world.submit("three")
    assert world.slots(two) == [("n0", (0,))]
    assert world.phase(three) is Phase.QUEUED


def test_a_request_for_what_is_not_there_is_answered_and_remembered() -> None:
    world = VirtualScheduler()
    ask(world, "n0")
    ask(world, "g", kind="device")
    world.settle()
    assert world.count("n0", "withheld") == world.count("g", "withheld") == 1
    world.join("n0")
    assert world.count("n0", "released") == 0


def test_a_lost_node_takes_nothing_until_it_returned_and_was_released_again() -> None:
    world = VirtualScheduler(nodes=1)
    world.lose("n0")
    one = world.submit("one")
    assert world.phase(one) is Phase.QUEUED
    world.back("n0")
    assert world.count("n0", "released") == 2
    assert world.phase(one) is Phase.PLACED


def test_a_placement_on_a_node_that_was_lost_meanwhile_is_kept_until_its_pods_are_reported_gone() -> None:
    world = VirtualScheduler(nodes=2, gpus=1)
    one = job("one")
    world.route(one)
    drafts = world.core.decide(world.now)
    world.write("agent", "node", "n0", "lost", NodeLost())
    for draft in drafts:
        world.append("scheduler", draft)
    world.settle()
    assert world.slots(one) == [("n0", (0,))]
    world.exited(one, "node-lost")
    assert world.slots(one) == [("n1", (0,))]


def test_a_node_that_leaves_and_comes_back_still_has_what_nobody_reported_gone() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    one = world.submit("one")
    leave(world, "n0")
    world.join("n0", gpus=1)
    two = world.submit("two")
    assert world.phase(two) is Phase.QUEUED, "the device is still held"
    world.exited(one, "node-lost")
    assert world.phase(one) is Phase.PLACED, "it came first"
    world.exited(one, attempt=2)
    assert world.phase(two) is Phase.PLACED
    assert world.core.state.ledger.misfits == 0


def test_a_node_that_left_is_forgotten_when_its_last_job_is_gone() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    leave(world, "n0")
    assert "n0" in world.core.state.nodes
    world.exited(one, "failed")
    assert world.core.state.nodes == {}


@pytest.mark.parametrize("full_node", [False, True])
def test_a_changed_description_keeps_what_is_held_and_new_devices_are_released_first(full_node: bool) -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    one = world.submit("one", gpus=1, full_node=full_node)
    world.join("n0", gpus=4)
    assert world.count("n0", "released") == 1
    assert world.count("n0-gpu-3", "released") == 1
    two = world.submit("two", gpus=3)
    assert (world.phase(two) is Phase.PLACED) is not full_node
    world.exited(one)
    assert world.phase(two) is Phase.PLACED
    assert world.core.state.ledger.misfits == 0


def test_a_node_that_shrank_below_what_is_held_does_not_stop_the_fold() -> None:
    world = VirtualScheduler(nodes=1, gpus=4)
    one = world.submit("one", gpus=4)
    world.join("n0", gpus=2)
    assert world.core.state.ledger.misfits == 1
    world.exited(one)
    two = world.submit("two", gpus=2)
    assert world.phase(two) is Phase.PLACED


def test_a_placement_that_fits_no_more_is_kept_on_the_job_and_counted() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    world.submit("one")
    two = world.submit("two")
    slots = (Slot(group=0, replica=0, node="n0", devices=(0,), gpu_milli=1000),)
    world.write("scheduler", "job", two.id, "placed", JobPlaced(attempt=1, slots=slots))
    world.settle()
    assert world.core.state.ledger.misfits == 1
    world.exited(two)
    assert world.phase(two) is Phase.SUCCEEDED


def test_a_request_that_is_made_again_by_force_is_answered_at_once() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    ask(world, "n0")
    world.settle()
    assert world.count("n0", "withheld") == 0
    ask(world, "n0", force=True)
    world.settle()
    withheld = world.last("withheld", "n0").payload
    assert (withheld.request_id, withheld.holders) == ("r1", (one.id,))
    ask(world, "n0", force=True)
    world.settle()
    assert world.count("n0", "withheld") == 1


def test_a_job_routed_between_a_decision_and_its_facts_is_no_less_tried() -> None:
    world = VirtualScheduler(nodes=3, gpus=8)
    for name in ("n1", "n2"):
        ask(world, name)
    world.settle()
    likes = [job(f"like-{number}", gpus=8) for number in range(3)]
    world.route(*likes[:2])
    world.settle()
    for name in ("n1", "n2"):
        back = WithholdWithdrawn(request_id="r1", after_withheld=True)
        world.write("composer", "node", name, "withhold-withdrawn", back)
    world.decide_once("scheduler")  # released
    decided = world.core.decide(world.now)
    world.route(likes[2])
    for draft in decided:
        world.append("scheduler", draft)
    world.settle()
    assert [world.phase(one) for one in likes] == [Phase.PLACED] * 3
