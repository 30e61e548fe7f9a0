"""Devices that come and go under the scheduler, and requests to withhold that are taken back."""

import pytest

from kit.scheduler import KINDS, VirtualScheduler, belief, job, ledger_balances
from kit.scheduler_yard import Yard, ask, elastic, runs
from muster.cluster.gangs import gang_of
from muster.core import Fact
from muster.placement import Shortage
from muster.scheduler.core.answers import answer_nodes, answer_why
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.node import NodeJoined, NodeLeft, WithholdRequested, WithholdWithdrawn
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskFleet, AskJob


def withdraw(
    world: VirtualScheduler, name: str, request: str = "r1", *, kind: str = "node", after_withheld: bool = False
) -> None:
    body = WithholdWithdrawn(request_id=request, after_withheld=after_withheld)
    world.write("composer", kind, name, "withhold-withdrawn", body)
    world.settle()


def plug(world: VirtualScheduler, name: str, index: int, *, there: bool) -> None:
    world.plug(name, index, there=there)
    world.settle()


def last_placed(world: VirtualScheduler, one: Job) -> Fact:
    return world.last("placed", one.id)


GRANTS = pytest.mark.parametrize(("kind", "name"), [("node", "n0"), ("device", "n0-gpu-0")])


@GRANTS
def test_a_wish_that_is_taken_back_unanswered_leaves_things_as_they_were(kind: str, name: str) -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    one = world.submit("one")
    ask(world, name, kind=kind)
    world.settle()
    withdraw(world, name, kind=kind)
    two = world.submit("two")
    world.exited(one)
    assert world.phase(two) is Phase.PLACED
    assert world.count(name, "withheld") == 0
    assert world.count("n0", "released") == 1, "nobody was told that it is withheld"


@GRANTS
def test_a_wish_that_is_taken_back_across_its_answer_stands(kind: str, name: str) -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    ask(world, name, kind=kind)
    world.settle()
    withdraw(world, name, kind=kind)
    assert world.phase(world.submit("one")) is Phase.QUEUED
    assert world.core.state.anomalies.total() == 0


@GRANTS
def test_an_answer_that_is_given_back_is_released_and_used_at_once(kind: str, name: str) -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    ask(world, name, kind=kind)
    one = world.submit("one")
    assert world.phase(one) is Phase.QUEUED
    withdraw(world, name, kind=kind, after_withheld=True)
    released = world.last("released", name)
    assert released.causes == (world.last("withhold-withdrawn", name).id,)
    assert last_placed(world, one).seq > released.seq


@GRANTS
def test_an_answer_that_was_on_its_way_when_its_wish_was_taken_back_stands(kind: str, name: str) -> None:
    """Who asked folds the withdrawal and then `withheld`, and may act on that; so nothing may be placed there."""
    world = VirtualScheduler(nodes=1, gpus=1)
    ask(world, name, kind=kind)
    drafts = world.core.decide(world.now)
    world.write("composer", kind, name, "withhold-withdrawn", WithholdWithdrawn(request_id="r1"))
    for draft in drafts:
        world.append("scheduler", draft)
    world.settle()
    assert world.count(name, "withheld") == 1
    one = world.submit("one")
    assert world.phase(one) is Phase.QUEUED
    assert belief(world.recover()) == belief(world.core) == belief(world.refold())
    withdraw(world, name, kind=kind, after_withheld=True)
    assert world.phase(one) is Phase.PLACED


@GRANTS
def test_while_somebody_else_asks_it_stays_withheld_and_is_released_when_nobody_does(kind: str, name: str) -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    ask(world, name, kind=kind)
    world.settle()
    one = world.submit("one")
    ask(world, name, "r2", kind=kind)
    world.settle()
    withdraw(world, name, kind=kind, after_withheld=True)
    assert world.phase(one) is Phase.QUEUED
    assert belief(world.recover()) == belief(world.core)
    withdraw(world, name, "r2", kind=kind, after_withheld=True)
    assert world.phase(one) is Phase.PLACED


def test_what_nobody_asked_is_not_taken_back() -> None:
    world = VirtualScheduler(nodes=1)
    withdraw(world, "n0")
    withdraw(world, "n0-gpu-0", kind="device")
    assert world.core.state.anomalies == {"withdrawn of nothing": 2}


def test_what_is_given_back_of_a_device_that_is_gone_needs_no_answer() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    ask(world, "n0-gpu-1", kind="device")
    world.settle()
    plug(world, "n0", 1, there=False)
    withdraw(world, "n0-gpu-1", kind="device", after_withheld=True)
    assert world.core.state.anomalies.total() == 0
    assert world.core.state.grants.devices == {}


def test_what_a_job_holds_of_devices_stays_held_when_memory_is_taken_away_under_it() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    one = world.submit("one", memory_mib=900_000)
    less = world.nodes["n0"].description.model_copy(update={"memory_mib": 800_000})
    world.write("agent", "node", "n0", "joined", less)
    ledger_balances(world.core)
    assert world.core.state.fleet.ledger.node("n0").idle == [0, 1000]
    world.exited(one)
    ledger_balances(world.core)
    assert world.slots(world.submit("three", memory_mib=800_000)) == [("n0", (0,))]


def test_a_device_that_a_gang_is_growing_onto_is_held() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    first = yard.runs("first", queue="a", gpus=2)
    wide = runs(yard, elastic("wide", least=1, replicas=4))
    yard.exited(first)
    yard.advance(10)
    (index,) = {slot.devices[0] for slot in yard.last("resize-requested", wide.id).payload.slots} & {0}
    ask(yard, f"n0-gpu-{index}", kind="device")
    yard.settle()
    assert yard.count(f"n0-gpu-{index}", "withheld") == 0
    yard.exited(wide)
    assert yard.count(f"n0-gpu-{index}", "withheld") == 1


def test_a_device_that_appears_is_released_and_a_waiting_job_gets_it_at_once() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    plug(world, "n0", 1, there=False)
    one, two = world.submit("one"), world.submit("two")
    assert world.phase(two) is Phase.QUEUED
    plug(world, "n0", 1, there=True)
    assert world.slots(two) == [("n0", (1,))]
    assert last_placed(world, two).seq > world.last("released", "n0-gpu-1").seq
    assert world.slots(one) == [("n0", (0,))]
    assert world.count("n0", "released") == 1


def test_the_first_device_of_an_empty_node_too() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    plug(world, "n0", 0, there=False)
    one = world.submit("one")
    assert world.phase(one) is Phase.QUEUED
    plug(world, "n0", 0, there=True)
    assert world.phase(one) is Phase.PLACED


def test_a_place_without_a_device_is_no_capacity() -> None:
    world = VirtualScheduler(nodes=1, gpus=4)
    world.advance(60.0)
    plug(world, "n0", 1, there=False)
    world.advance(60.0)
    assert world.core.state.summary.numbers is not None
    assert world.core.state.summary.numbers.gpu_milli_total == 3_000
    assert world.core.state.capacity.totals["gpu_milli"] == 3_000
    (node,) = answer_nodes(world.core, AskFleet(), world.now).nodes
    assert node.gpus == 3
    assert world.slots(world.submit("three", gpus=3)) == [("n0", (0, 2, 3))]


def test_a_device_that_is_taken_away_under_a_job_leaves_the_rest_of_it_held() -> None:
    world = VirtualScheduler(nodes=1, gpus=4)
    one, beside = world.submit("one", gpus=2), world.submit("beside")
    assert (world.slots(one), world.slots(beside)) == ([("n0", (0, 1))], [("n0", (2,))])
    plug(world, "n0", 1, there=False)
    ledger_balances(world.core)
    assert world.core.state.ledger.misfits == 1
    two, three = world.submit("two"), world.submit("three")
    assert world.slots(two) == [("n0", (3,))]
    assert world.phase(three) is Phase.QUEUED, "device 0 is still held"
    assert belief(world.recover()) == belief(world.core) == belief(world.refold())
    world.exited(one, "node-lost")
    ledger_balances(world.core)
    assert world.slots(three) == [("n0", (0,))]


def test_a_device_that_comes_back_is_held_by_whom_it_was() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    one = world.submit("one", gpus=2)
    plug(world, "n0", 1, there=False)
    plug(world, "n0", 1, there=True)
    ledger_balances(world.core)
    two = world.submit("two")
    assert world.phase(two) is Phase.QUEUED
    world.exited(one)
    assert world.phase(two) is Phase.PLACED


def test_a_device_may_be_asked_about_by_its_place_wherever_it_is() -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    nodes = world.core.state.nodes
    assert (nodes.place_of("n1-gpu-1"), nodes.place_of("g")) == (("n1", 1), None)
    plug(world, "n1", 0, there=False)
    assert (nodes.place_of("n1-gpu-0"), nodes.place_of("empty-0"), nodes.place_of("n1-gpu-1")) == (
        None,
        None,
        ("n1", 1),
    )


def moved_to(world: VirtualScheduler, node: str, *uuids: str) -> None:
    body = NodeJoined(cpu_milli=128_000, memory_mib=1_048_576, gpu_model="H100", gpu_uuids=uuids)
    world.write("agent", "node", node, "joined", body)
    world.settle()


def test_a_device_that_was_withheld_for_its_move_is_usable_where_it_arrives() -> None:
    world = VirtualScheduler(nodes=2, gpus=1)
    ask(world, "n0-gpu-0", kind="device")
    world.settle()
    moved_to(world, "n0")
    moved_to(world, "n1", "n1-gpu-0", "n0-gpu-0")
    assert world.core.state.grants.devices == {}
    assert world.slots(world.submit("one", gpus=2)) == [("n1", (0, 1))]


def test_a_device_that_is_shown_by_its_new_node_first_is_that_nodes() -> None:
    """A lost node cannot say that its device is gone."""
    world = VirtualScheduler(nodes=2, gpus=1)
    world.lose("n0")
    ask(world, "n0-gpu-0", kind="device")
    world.settle()
    moved_to(world, "n1", "n1-gpu-0", "n0-gpu-0")
    assert world.slots(world.submit("one", gpus=2)) == [("n1", (0, 1))]
    moved_to(world, "n0")
    assert world.core.state.nodes.place_of("n0-gpu-0") == ("n1", 1)


def test_a_device_that_left_with_its_new_node_is_nowhere_until_its_old_node_says_so_too() -> None:
    world = VirtualScheduler(nodes=2, gpus=1)
    moved_to(world, "n1", "n1-gpu-0", "n0-gpu-0")
    world.write("agent", "node", "n1", "left", NodeLeft())
    world.settle()
    moved_to(world, "n0")
    assert world.core.state.nodes.place_of("n0-gpu-0") is None


def test_a_device_that_was_withheld_before_its_node_showed_it_is_not_used() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    ask(world, "new", kind="device")
    world.settle()
    moved_to(world, "n0", "n0-gpu-0", "new")
    assert world.count("new", "released") == 0
    assert world.phase(world.submit("one", gpus=2)) is Phase.QUEUED


def test_a_device_that_was_taken_away_before_its_node_showed_it_is_forgotten() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    ask(world, "new", kind="device")
    world.settle()
    world.write("composer", "attachment", "a1", "detached", DeviceDetached(device_uuid="new", node="n0"))
    assert world.core.state.grants.devices == {}


def test_a_job_that_no_node_could_hold_waits_with_a_reason_and_is_placed_once_one_can() -> None:
    world = VirtualScheduler(nodes=1, gpus=2, limits=Limits(may_grow=True))
    plug(world, "n0", 1, there=False)
    one = world.submit("one", gpus=2)
    assert world.phase(one) is Phase.QUEUED
    assert world.last("unschedulable", one.id).payload.model_dump()["reason"] == "gpu"
    why = answer_why(world.core, AskJob(job_id=one.id), world.now)
    assert why.cure.startswith("wait until scaling adds GPUs or nodes")
    plug(world, "n0", 1, there=True)
    assert world.phase(one) is Phase.PLACED


@pytest.mark.parametrize(
    ("writers", "reason"),
    [
        (("composer",), "gpu"),
        (("scaler",), "gpu"),
        (("composer", "scaler"), "gpu"),
        (("health",), "health"),
        (("upgrader",), "health"),
        (("composer", "health"), "health"),
    ],
)
@pytest.mark.parametrize("kind", ["node", "device"])
def test_what_is_withheld_to_be_moved_is_no_matter_of_health(kind: str, writers: tuple[str, ...], reason: str) -> None:
    world = VirtualScheduler(nodes=2, gpus=1)
    for writer in writers:
        payload = WithholdRequested(request_id=f"by-{writer}")
        world.write(writer, kind, "n1" if kind == "node" else "n1-gpu-0", "withhold-requested", payload)
    one = job("one", replicas=2)
    world.route(one)
    world.settle()
    assert world.last("unschedulable", one.id).payload.model_dump()["reason"] == reason
    for other in (world.recover(), world.recover(reversed(KINDS)), world.refold()):
        answer = other.state.fleet.place(gang_of(one))
        assert isinstance(answer, Shortage)
        assert answer.reason.value == reason, "who asked is remembered"


def test_what_is_new_and_waits_to_be_released_is_no_matter_of_health_but_what_is_lost_is() -> None:
    world, one = VirtualScheduler(nodes=2, gpus=1), gang_of(job("one", replicas=2))

    def reason() -> str:
        answer = world.core.state.fleet.place(one)
        assert isinstance(answer, Shortage)
        return answer.reason.value

    world.plug("n1", 0, there=False)
    world.settle()
    world.plug("n1", 0, there=True)
    assert reason() == "gpu", "the device is not released yet"
    world.settle()
    world.set_lost_quietly("n1", lost=True)
    assert reason() == "health"
    world.set_lost_quietly("n1", lost=False)
    assert reason() == "gpu", "the node is well, and not released yet"
