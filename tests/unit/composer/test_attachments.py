"""The way of one device from the pool to a node: intents, outcomes, retries, and what nobody knows."""

import pytest

from kit.composer import BOUNDS, CALL_S, TRACE, composer_with
from kit.composer_fabrics import A100, device, machine
from muster.composer.core.limits import SKEW_S, START_S
from muster.core import seconds_between
from muster.schemas.devices import GPU
from muster.schemas.facts.device import (
    CallFailed,
    CallFailure,
    CallStarted,
    DeviceAttached,
)


def test_a_device_goes_from_requested_to_online_in_known_steps() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    assert it.names() == ["requested", "attaching"]
    there = it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    assert it.names()[-1] == "attached"
    it.show("n1", there.device_uuid)
    it.settle()
    assert it.names()[-1] == "visible"
    it.release(there.device_uuid)
    it.settle()
    assert it.names()[-1] == "online"
    assert it.names("composability") == ["compose-forwarded", "accepted", "moved"]


def test_an_intent_leaves_its_call_its_whole_time() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    call = it.fabrics.attaching[0]
    assert seconds_between(it.now, call.deadline_at) == START_S + CALL_S
    assert seconds_between(call.start_by, call.deadline_at) == CALL_S
    assert (call.machine, call.model, call.attempt) == (machine("n1"), A100, 1)


def test_every_fact_of_a_device_carries_the_trace_of_the_wish_and_its_cause() -> None:
    it = composer_with("n1")
    it.bring(target_node="n1")
    facts = [fact for fact in it.log if fact.kind == "attachment"]
    assert {fact.trace for fact in facts} == {TRACE}
    assert it.fabrics.begun[0].trace == TRACE
    by_id = {fact.id for fact in it.log}
    assert all(fact.causes and set(fact.causes) <= by_id for fact in facts)


def test_a_device_that_its_node_shows_before_the_log_has_it_is_online_at_once() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    there = it.fabrics.finish(it.fabrics.attaching[0])
    it.show("n1", there.device_uuid)
    it.release(there.device_uuid)
    it.settle()
    assert it.names()[-3:] == ["attached", "visible", "online"]


def test_what_is_shown_but_not_released_is_not_online() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    there = it.fabrics.finish(it.fabrics.attaching[0])
    it.show("n1", there.device_uuid)
    it.advance(30)
    assert it.phases() == ["visible"]


def test_a_device_that_no_node_shows_goes_back() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.fabrics.finish(it.fabrics.attaching[0])
    it.advance(BOUNDS.visible_s_max + 1)
    assert it.names()[-1] == "detach-wanted"
    assert "did not show it" in it.last("detach-wanted").payload.reason


def test_not_more_calls_are_under_way_than_the_fabric_takes() -> None:
    it = composer_with("n1", "n2", limit=3)
    it.compose(size=8, allocation_policy="differentnode")
    assert len(it.fabrics.attaching) == 3
    it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    assert len(it.fabrics.attaching) == 3
    assert len(it.fabrics.begun) == 4


def test_an_unavailable_fabric_is_tried_again_later_and_later() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    gaps = []
    for _ in range(2):
        it.fabrics.tell(it.fabrics.attaching[0], CallFailure.UNAVAILABLE)
        failed_at = it.now
        it.settle()
        before = len(it.fabrics.begun)
        while len(it.fabrics.begun) == before:
            it.advance(0.1)
        gaps.append(seconds_between(failed_at, it.now))
    assert BOUNDS.backoff_s / 2 <= gaps[0] <= BOUNDS.backoff_s + 0.2
    assert BOUNDS.backoff_s <= gaps[1] <= 2 * BOUNDS.backoff_s + 0.2


def test_two_that_failed_together_are_not_tried_again_together() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1", size=2)
    for call in it.fabrics.attaching:
        it.fabrics.tell(call, CallFailure.UNAVAILABLE)
    it.settle()
    first, second = (fact.payload.retry_at for fact in it.log if fact.name == "attach-failed")
    assert first != second


def test_after_the_last_attempt_the_attachment_failed() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    for _ in range(BOUNDS.attempts_max):
        it.fabrics.tell(it.fabrics.attaching[0], CallFailure.UNAVAILABLE, "not ready")
        it.advance(40)
    assert it.names()[-1] == "failed"
    assert it.last("failed").payload.reason == "not ready"
    assert it.last("moved").payload.error == "not ready"
    assert not it.core.state.attachments


def test_what_the_fabric_refuses_is_not_tried_again() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.fabrics.tell(it.fabrics.attaching[0], CallFailure.REFUSED, "no such machine")
    it.settle()
    assert it.names() == ["requested", "attaching", "attach-failed", "failed"]


@pytest.mark.parametrize("failure", [CallFailure.TIMEOUT, CallFailure.NONSENSE])
def test_a_device_that_arrived_without_an_answer_is_adopted_and_nothing_is_called_again(failure: CallFailure) -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    call = it.fabrics.attaching[0]
    there = it.fabrics.do(call)
    it.fabrics.tell(call, failure)
    it.advance(CALL_S * 3)
    attached = it.last("attached").payload
    assert isinstance(attached, DeviceAttached)
    assert attached.adopted
    assert attached.device_uuid == there.device_uuid
    assert len(it.fabrics.begun) == 1


@pytest.mark.parametrize("failure", [CallFailure.TIMEOUT, CallFailure.NONSENSE])
def test_it_is_called_again_only_after_a_look_that_began_after_the_deadline_shows_nothing(failure: CallFailure) -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    call = it.fabrics.attaching[0]
    it.fabrics.tell(call, failure)
    it.advance(CALL_S * 3)
    again = it.fabrics.begun[1]
    begun_at = next(fact.time for fact in it.log if fact.name == "attaching" and fact.payload.attempt == 2)
    assert again.attempt == 2
    assert any(call.deadline_at < looked <= begun_at for looked in it.fabrics.looked_at)


def test_nothing_is_called_again_while_the_fabric_cannot_be_looked_at() -> None:
    it = composer_with("n1", bounds=BOUNDS.__class__(attempts_max=3, breaker_failures=1_000))
    it.compose(target_node="n1")
    it.fabrics.blind = CallFailure.UNAVAILABLE
    it.fabrics.tell(it.fabrics.attaching[0], CallFailure.TIMEOUT)
    it.advance(CALL_S * 2)
    assert len(it.fabrics.begun) == 1


def test_of_two_devices_that_a_doubled_request_brought_one_is_taken_and_one_is_an_orphan() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    call = it.fabrics.attaching[0]
    it.fabrics.do(call)
    it.fabrics.finish(call)
    it.advance(40)
    assert it.names().count("attached") == 1
    assert it.names("fabric").count("orphan-found") == 1


def test_two_on_one_machine_share_what_arrived_whichever_call_brought_it() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1", size=2)
    first, second = it.fabrics.attaching
    it.fabrics.do(first)
    it.fabrics.finish(second)  # names both devices: the first's is taken
    it.fabrics.tell(first, CallFailure.TIMEOUT)
    it.advance(CALL_S * 3)
    attached = [fact.payload.device_id for fact in it.log if fact.name == "attached"]
    assert sorted(attached) == ["res-1", "res-2"]
    assert len(it.fabrics.begun) == 2


def test_a_device_named_by_an_old_answer_that_was_taken_away_meanwhile_is_not_believed() -> None:
    it = composer_with("n1")
    (uuid,) = it.bring("old", target_node="n1")
    it.compose("new", size=1)
    call = it.fabrics.attaching[0]
    old = it.fabrics.on["one"][machine("n1")][0]
    it.advance(1)
    it.decompose("old")
    it.withdraw_all()
    it.fabrics.place("one", call.machine, old)
    it.fabrics.finish(call)
    it.fabrics.on["one"][call.machine].remove(old)
    it.settle()
    assert it.last("attached").payload.device_uuid != uuid


def test_an_attachment_ends_after_its_deadline_even_if_no_call_could_be_made() -> None:
    it = composer_with("n1", "n2", limit=1)
    it.compose("first", target_node="n1")
    it.compose("second", target_node="n2")
    it.advance(BOUNDS.attach_s_max - 1)
    assert "failed" not in it.names()
    it.advance(2)
    assert "not attached within" in it.last("failed").payload.reason


def test_a_lost_call_is_called_abandoned_after_its_deadline_and_made_again() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    deadline_at = it.fabrics.attaching[0].deadline_at
    it.restart()
    it.advance(seconds_between(it.now, deadline_at) + SKEW_S - 0.1)
    assert it.names().count("attach-failed") == 0
    it.advance(10)
    failed = it.last("attach-failed").payload
    assert isinstance(failed, CallFailed)
    assert failed.failure is CallFailure.ABANDONED
    again = it.last("attaching").payload
    assert isinstance(again, CallStarted)
    assert again.attempt == 2


def test_a_new_leader_adopts_what_the_lost_call_brought_without_waiting_for_its_deadline() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    call = it.fabrics.attaching[0]
    it.restart()
    it.fabrics.do(call)
    it.advance(5)
    assert it.last("attached").payload.adopted
    assert it.now < call.deadline_at


def test_a_deposed_leaders_calls_still_count_against_the_limit() -> None:
    it = composer_with("n1", "n2", limit=2)
    it.compose(size=4, allocation_policy="differentnode")
    it.restart()
    it.advance(CALL_S / 2)
    assert len(it.fabrics.begun) == 2


@pytest.mark.parametrize("failure", [CallFailure.TIMEOUT, CallFailure.NONSENSE])
def test_a_call_of_unknown_outcome_counts_until_its_deadline(failure: CallFailure) -> None:
    it = composer_with("n1", "n2", limit=2)
    it.compose(size=4, allocation_policy="differentnode")
    deadline_at = it.fabrics.attaching[0].deadline_at
    for call in it.fabrics.attaching:
        it.fabrics.tell(call, failure)
    it.advance(seconds_between(it.now, deadline_at) - 0.1)
    assert len(it.fabrics.begun) == 2
    it.advance(1)
    assert len(it.fabrics.begun) == 4


def test_what_came_for_a_request_that_is_deleted_meanwhile_goes_back() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.decompose()
    it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    it.withdraw_all()
    assert it.fabrics.free["one"][GPU, A100] == 8
    assert it.last("ended").subject_id == "r"


def test_a_device_that_vanished_from_its_machine_is_noticed() -> None:
    it = composer_with("n1")
    it.bring(target_node="n1")
    it.fabrics.on["one"][machine("n1")].clear()
    it.advance(60)
    assert "does not have it" in it.last("detach-wanted").payload.reason


def test_no_attachment_is_made_of_a_device_of_another_model() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    call = it.fabrics.attaching[0]
    it.fabrics.place("one", call.machine, device(77, model="L4"))
    it.fabrics.finish(call)
    it.settle()
    assert it.last("attached").payload.device_uuid == "GPU-1"
