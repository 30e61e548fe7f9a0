"""Fabrics as a whole: what stood there before, what nobody asked for, the pool's counts, and the breaker."""

from collections import Counter
from dataclasses import replace

import pytest

from kit.composer import BOUNDS, CALL_S, VirtualComposer, composer_with, config
from kit.composer_fabrics import A100, H100, device, machine
from muster.composer.core.config import GroupConfig
from muster.composer.core.limits import Bounds
from muster.core import seconds_between
from muster.fabric.driver import MachineDevice
from muster.schemas.devices import CXL_MEMORY, GPU, Origin
from muster.schemas.facts.composability import RequestRefused
from muster.schemas.facts.device import AttachmentRequested, CallFailed, CallFailure
from muster.schemas.facts.fabric import (
    BreakerOpened,
    FabricSurveyed,
    OrphanFound,
    OrphanReturned,
)


def pool(it: VirtualComposer) -> dict[str, tuple[int, int]]:
    told = it.last("surveyed").payload
    assert isinstance(told, FabricSurveyed)
    return {model.model: (model.free, model.attached) for model in told.pool}


# --- the first look, and the pool ---------------------------------------------------------------------------------


def test_devices_that_stand_there_at_the_first_look_are_found_not_orphans() -> None:
    it = VirtualComposer(config())
    it.fabrics.stock("one", (GPU, A100), 3)
    it.fabrics.place("one", machine("n1"), device(901))
    it.fabrics.place("one", machine("n2"), device(902))
    it.node("n1")
    it.node("n2")
    it.advance(60)
    it.show("n1", "GPU-901")
    it.release("GPU-901")
    it.settle()
    requested = [fact.payload for fact in it.log if isinstance(fact.payload, AttachmentRequested)]
    assert [payload.origin for payload in requested] == [Origin.FOUND] * 2
    assert it.names("fabric") == ["surveyed"]
    assert pool(it) == {A100: (3, 2)}
    assert sorted(it.phases()) == ["attached", "online"]


def test_what_stands_on_machines_of_others_is_left_alone() -> None:
    it = VirtualComposer(config())
    it.fabrics.stock("one", (GPU, A100), 3)
    it.fabrics.place("one", "somebody-elses", device(901))
    it.node("n1")
    it.advance(300)
    it.detach("GPU-901")
    assert it.names() == []
    assert it.names("fabric") == ["surveyed"]


@pytest.mark.parametrize("from_checkpoint", [True, False])
def test_devices_of_a_node_that_joins_later_stood_there_before_and_what_comes_then_is_an_orphan(
    *, from_checkpoint: bool
) -> None:
    it = VirtualComposer(config())
    it.fabrics.stock("one", (GPU, A100), 3)
    it.fabrics.place("one", machine("n1"), device(901))
    it.advance(300)
    assert it.names() == []
    it.node("n1")
    it.restart(from_checkpoint=from_checkpoint)
    it.advance(40)
    (requested,) = [fact.payload for fact in it.log if isinstance(fact.payload, AttachmentRequested)]
    assert (requested.origin, requested.node) == (Origin.FOUND, "n1")
    it.fabrics.place("one", machine("n1"), device(902))
    it.advance(40)
    assert it.last("orphan-found").payload.device_id == "res-902"


def test_what_a_doubled_call_brings_to_a_new_node_is_an_orphan() -> None:
    it = VirtualComposer(config())
    it.fabrics.stock("one", (GPU, A100), 3)
    it.advance(0)
    it.node("n1")
    it.compose(target_node="n1")
    (call,) = it.fabrics.attaching
    it.fabrics.do(call)
    it.fabrics.finish(call)
    it.advance(40)
    assert it.names("fabric").count("orphan-found") == 1


def test_machines_that_are_configured_are_known_with_their_nodes_before_these_join() -> None:
    group = GroupConfig("composable", "one", (A100,), machines=(("m-1", "n1"),))
    it = VirtualComposer(replace(config(), groups=(group,)))
    it.fabrics.stock("one", (GPU, A100), 3)
    it.fabrics.place("one", "m-1", device(901))
    it.advance(0)
    (requested,) = [fact.payload for fact in it.log if isinstance(fact.payload, AttachmentRequested)]
    assert (requested.origin, requested.node) == (Origin.FOUND, "n1")


@pytest.mark.parametrize("from_checkpoint", [True, False])
def test_what_comes_late_to_the_machine_of_a_node_that_left_is_an_orphan(*, from_checkpoint: bool) -> None:
    it = composer_with("n1", "n2")
    it.leave("n1")
    it.settle()
    it.restart(from_checkpoint=from_checkpoint)
    it.fabrics.place("one", machine("n1"), device(901))
    it.advance(40)
    assert it.last("orphan-found").payload.machine == machine("n1")


@pytest.mark.parametrize("from_checkpoint", [True, False])
def test_a_choice_of_a_device_that_went_back_a_moment_ago_is_none_to_refuse(*, from_checkpoint: bool) -> None:
    it = composer_with("n1")
    (uuid,) = it.bring(target_node="n1")
    it.detach(uuid)
    it.withdraw_all()
    it.restart(from_checkpoint=from_checkpoint)
    it.choose("s000001", devices=(uuid,))
    assert it.last("accepted").subject_id == "s000001"


def test_the_pool_is_told_as_soon_as_what_was_found_is_taken_over() -> None:
    it = VirtualComposer(config())
    it.fabrics.stock("one", (GPU, A100), 3)
    it.fabrics.place("one", machine("n1"), device(901))
    it.node("n1")
    it.advance(0)
    assert pool(it) == {A100: (3, 1)}
    assert it.phases() == ["attached"]


def test_what_was_found_can_be_detached_by_its_uuid() -> None:
    it = VirtualComposer(config())
    it.fabrics.stock("one", (GPU, A100), 0)
    it.fabrics.place("one", machine("n1"), device(901))
    it.node("n1")
    it.settle()
    it.plug()
    it.detach("GPU-901")
    it.withdraw_all()
    assert it.fabrics.free["one"][GPU, A100] == 1


def test_nothing_is_said_of_a_pool_that_is_as_the_log_says() -> None:
    it = composer_with("n1")
    (uuid,) = it.bring(target_node="n1")
    it.advance(600)
    it.detach(uuid)
    it.withdraw_all()
    it.advance(600)
    assert it.names("fabric").count("surveyed") == 1


def test_a_pool_that_grew_is_told_once() -> None:
    it = composer_with("n1", pool=2)
    it.fabrics.stock("one", (GPU, A100), 5)
    it.advance(200)
    assert it.names("fabric").count("surveyed") == 2
    assert pool(it) == {A100: (7, 0)}


def test_the_pool_is_not_counted_while_calls_blur_it() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.fabrics.free["one"][GPU, A100] -= 1  # reserved by the manager, not yet attached
    it.advance(CALL_S / 2)
    it.fabrics.free["one"][GPU, A100] += 1
    it.fabrics.finish(it.fabrics.attaching[0])
    it.advance(100)
    assert it.names("fabric").count("surveyed") == 1


# --- orphans ------------------------------------------------------------------------------------------------------


def test_an_orphan_is_told_watched_and_returned() -> None:
    it = composer_with("n1")
    it.fabrics.place("one", machine("n1"), device(901))
    it.advance(40)
    found = it.last("orphan-found").payload
    assert isinstance(found, OrphanFound)
    assert (found.device_uuid, found.machine) == ("GPU-901", machine("n1"))
    it.advance(BOUNDS.orphan_s - 41)
    assert "requested" not in it.names()
    it.advance(60)
    assert it.names() == ["requested", "attached", "detach-wanted"]
    it.withdraw_all()
    returned = it.last("orphan-returned").payload
    assert isinstance(returned, OrphanReturned)
    assert not returned.adopted
    assert it.fabrics.on["one"][machine("n1")] == []


def test_an_orphan_goes_to_the_next_who_asks_for_one_there() -> None:
    it = composer_with("n1")
    it.fabrics.place("one", machine("n1"), device(901))
    it.advance(40)
    it.compose(target_node="n1")
    it.settle()
    assert it.last("attached").payload.adopted
    assert it.last("orphan-returned").payload.adopted
    assert not it.fabrics.begun


def test_an_orphan_that_somebody_else_took_away_is_told_as_returned() -> None:
    it = composer_with("n1")
    it.fabrics.place("one", machine("n1"), device(901))
    it.advance(40)
    it.fabrics.on["one"][machine("n1")].clear()
    it.advance(60)
    assert "orphan-returned" in it.names("fabric")
    assert "requested" not in it.names()


def test_a_device_that_a_call_under_way_may_have_brought_is_no_orphan() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.fabrics.do(it.fabrics.attaching[0])
    it.advance(CALL_S / 2 + 10)
    assert "orphan-found" not in it.names("fabric")


def test_a_look_from_before_a_device_was_taken_away_does_not_bring_it_back() -> None:
    it = composer_with("n1")
    (uuid,) = it.bring(target_node="n1")
    it.detach(uuid)
    it.withhold()
    it.settle()
    it.fabrics.slow = {}
    it.advance(BOUNDS.survey_s)
    it.fabrics.finish(it.fabrics.detaching[0])
    it.settle()
    it.compose("next", target_node="n1", size=2)
    it.fabrics.show_slow_looks()
    it.settle()
    assert "orphan-found" not in it.names("fabric")
    assert it.names().count("attached") == 1


def test_devices_on_machines_of_others_are_left_alone() -> None:
    it = composer_with("n1")
    it.fabrics.place("one", "somebody-elses", device(901))
    it.advance(1_000)
    assert "orphan-found" not in it.names("fabric")
    assert not it.names()


# --- the breaker --------------------------------------------------------------------------------------------------


def failing(it: VirtualComposer, failure: CallFailure = CallFailure.NONSENSE) -> None:
    """Calls fail until the breaker opens."""
    for _ in range(BOUNDS.breaker_failures):
        for call in it.fabrics.attaching:
            it.fabrics.tell(call, failure, "what?")
        it.advance(1)


def test_a_fabric_that_answers_nonsense_is_left_alone_for_a_while() -> None:
    it = composer_with("n1", "n2")
    it.compose(size=8, allocation_policy="differentnode")
    failing(it)
    opened = it.last("breaker-opened").payload
    assert isinstance(opened, BreakerOpened)
    assert (opened.failure, opened.error) == (CallFailure.NONSENSE, "what?")
    begun = len(it.fabrics.begun)
    it.advance(seconds_between(it.now, opened.retry_at) - 0.1)
    assert len(it.fabrics.begun) == begun


def test_then_one_call_is_made_and_its_success_closes_the_breaker() -> None:
    it = composer_with("n1", "n2")
    it.compose(size=8, allocation_policy="differentnode")
    failing(it, CallFailure.UNAVAILABLE)
    it.advance(BOUNDS.breaker_s)
    assert len(it.fabrics.attaching) == 1
    it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    assert it.names("fabric")[-1] == "breaker-closed"
    assert len(it.fabrics.attaching) == 4


def test_its_failure_opens_the_breaker_again() -> None:
    it = composer_with("n1", "n2")
    it.compose(size=8, allocation_policy="differentnode")
    failing(it, CallFailure.UNAVAILABLE)
    it.advance(BOUNDS.breaker_s)
    it.fabrics.tell(it.fabrics.attaching[0], CallFailure.UNAVAILABLE)
    it.settle()
    assert it.names("fabric").count("breaker-opened") == 2
    assert not it.fabrics.attaching


def test_refusals_say_nothing_against_a_fabric() -> None:
    it = composer_with("n1", "n2")
    it.compose(size=8, allocation_policy="differentnode")
    failing(it, CallFailure.REFUSED)
    assert "breaker-opened" not in it.names("fabric")


def test_a_fabric_that_cannot_be_looked_at_trips_its_breaker_and_recovers() -> None:
    it = composer_with("n1")
    it.fabrics.blind = CallFailure.UNAVAILABLE
    it.advance(100)
    assert "breaker-opened" in it.names("fabric")
    it.fabrics.blind = None
    it.advance(200)
    assert it.names("fabric")[-1] == "breaker-closed"


def test_a_fabric_that_is_gone_is_tried_ever_more_rarely() -> None:
    it = composer_with("n1")
    it.fabrics.blind = CallFailure.UNAVAILABLE
    it.advance(3_600)
    opened = [fact.payload for fact in it.log if isinstance(fact.payload, BreakerOpened)]
    assert 5 <= len(opened) <= 16


def test_a_fabric_that_never_told_its_pool_holds_up_no_request_that_can_do_without_it() -> None:
    it = VirtualComposer(config(fabrics=("one", "two")))
    it.fabrics.stock("one", (GPU, A100), 8)
    it.fabrics.dark.add("two")
    it.node("m1", group="elsewhere")
    it.node("n1")
    it.advance(0)
    it.compose(size=1)
    assert [call.machine for call in it.fabrics.attaching] == [machine("n1")]


@pytest.mark.parametrize(("model", "size", "field"), [("B300", 1, "model"), (H100, 9, "size")])
def test_a_fabric_that_never_told_its_pool_delays_no_refusal_of_what_its_groups_never_take(
    model: str, size: int, field: str
) -> None:
    it = VirtualComposer(config(fabrics=("one", "two")))
    it.fabrics.stock("one", (GPU, H100), 8)
    it.fabrics.dark.add("two")
    it.node("m1", group="elsewhere")
    it.node("n1")
    it.advance(0)
    it.compose(size=size, model=model)
    refused = it.last("refused").payload
    assert isinstance(refused, RequestRefused)
    assert refused.field == field


def test_a_fabric_that_fails_is_chosen_last() -> None:
    it = VirtualComposer(config(fabrics=("one", "two")))
    for name in ("one", "two"):
        it.fabrics.stock(name, (GPU, A100), 8)
    it.node("a1")
    it.node("m1", group="elsewhere")
    it.advance(0)
    it.compose("broken", size=4, target_node="a1", settle=False)
    failing(it)
    it.node("a2")
    it.compose("free", size=1)
    assert it.last("accepted").payload.orders[0].node == "m1"


def test_other_fabrics_go_on() -> None:
    it = VirtualComposer(config(fabrics=("one", "two")))
    for name in ("one", "two"):
        it.fabrics.stock(name, (GPU, A100), 8)
    it.node("n1")
    it.node("m1", group="elsewhere")
    it.settle()
    it.compose("broken", size=4, target_node="n1")
    failing(it)
    it.compose("fine", size=1, target_node="m1")
    assert [call.fabric for call in it.fabrics.attaching] == ["two"]


# --- memory -------------------------------------------------------------------------------------------------------


def test_a_memory_device_is_online_when_its_node_shows_it() -> None:
    it = composer_with("n1", memory=2)
    it.compose(type=CXL_MEMORY, model="CXL-128", target_node="n1")
    there = it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    assert it.phases() == ["attached"]
    it.show("n1", memory=(there.device_uuid,))
    it.settle()
    assert it.phases() == ["online"]


def test_a_memory_device_goes_only_when_its_whole_node_is_withheld() -> None:
    it = composer_with("n1", memory=2)
    (uuid,) = it.bring(type=CXL_MEMORY, model="CXL-128", target_node="n1")
    it.detach(uuid)
    assert (it.last("withhold-requested").kind, it.last("withhold-requested").subject_id) == ("node", "n1")
    it.withdraw_all()
    assert it.names()[-1] == "detached"
    assert "withhold-withdrawn" not in it.names("node")
    it.show("n1")
    it.settle()
    assert it.last("withhold-withdrawn").payload.after_withheld
    assert not it.core.state.attachments


def test_a_node_that_never_shows_the_loss_is_released_all_the_same() -> None:
    it = composer_with("n1", memory=2)
    (uuid,) = it.bring(type=CXL_MEMORY, model="CXL-128", target_node="n1")
    it.detach(uuid)
    it.withdraw_all()
    it.advance(Bounds().visible_s_max + 1)
    assert "withhold-withdrawn" in it.names("node")


# --- answers that no fact could hold --------------------------------------------------------------------------------


NONSENSE = (
    MachineDevice("", "GPU-1", A100), MachineDevice("x" * 300, "GPU-1", A100), MachineDevice("res-1", "G" * 300, A100),
    MachineDevice("res-1", "GPU-1", ""), MachineDevice("res-1", "GPU-1", A100, ""),
)  # fmt: skip


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("what", NONSENSE)
def test_a_look_that_no_fact_could_hold_speaks_against_its_fabric_alone(what: MachineDevice, *, first: bool) -> None:
    it = VirtualComposer(config(fabrics=("one", "two")))
    it.fabrics.stock("one", (GPU, A100), 3)
    it.fabrics.stock("two", (GPU, A100), 3)
    it.node("n1")
    it.node("m1", group="elsewhere")
    if not first:
        it.advance(0)
    it.fabrics.place("one", machine("n1"), what)
    it.advance(120)
    opened = it.last("breaker-opened")
    assert opened.subject_id == "one"
    assert opened.payload.failure is CallFailure.NONSENSE
    assert it.bring(target_node="m1")
    assert it.phases() == ["online"]


def test_an_attached_device_that_no_fact_could_hold_is_nonsense() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    (call,) = it.fabrics.attaching
    it.fabrics.place("one", machine("n1"), MachineDevice("", "GPU-1", A100))
    it.fabrics.finish(call)
    it.settle()
    failed = it.last("attach-failed").payload
    assert isinstance(failed, CallFailed)
    assert failed.failure is CallFailure.NONSENSE


def test_models_that_come_and_go_never_make_a_pool_that_cannot_be_told() -> None:
    it = composer_with("n1", pool=0)
    for turn in range(3):
        it.fabrics.free["one"] = Counter({(GPU, f"{turn}-{number}"): 1 for number in range(200)})
        it.advance(40)
        assert {model for model, (free, _) in pool(it).items() if free} == {f"{turn}-{n}" for n in range(200)}
