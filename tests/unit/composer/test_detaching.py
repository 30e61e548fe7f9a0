"""The way back: withheld first, then taken away; given up in time; by force only where that is allowed."""

import pytest

from kit.composer import BOUNDS, CALL_S, JOB, VirtualComposer, composer_with
from kit.composer_fabrics import machine
from muster.composer.core.limits import CROSSING_S
from muster.core import after
from muster.schemas.devices import GPU, AttachmentPhase
from muster.schemas.facts.composability import DetachRequested
from muster.schemas.facts.device import (
    CallFailure,
    CallStarted,
    DetachGivenUp,
    DeviceDetached,
)
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.node import Withheld, WithholdRequested, WithholdWithdrawn


def with_one() -> tuple[VirtualComposer, str]:
    it = composer_with("n1")
    (uuid,) = it.bring(target_node="n1")
    return it, uuid


def test_a_device_is_withheld_before_it_is_taken_away() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    assert it.names()[-1] == "detach-wanted"
    assert it.names("device", uuid)[-1] == "withhold-requested"
    it.advance(5)
    assert not it.fabrics.detaching
    it.withhold()
    it.settle()
    assert it.names()[-1] == "detaching"
    it.fabrics.finish(it.fabrics.detaching[0])
    it.settle()
    assert it.names()[-1] == "detached"
    assert not it.core.state.attachments


def test_the_wish_and_the_request_to_withhold_stand_together() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    wanted, asked = it.last("detach-wanted"), it.last("withhold-requested")
    assert wanted.payload.request_id == asked.payload.request_id
    assert asked.seq == wanted.seq + 1


def test_a_held_device_is_waited_for_then_given_up_and_may_be_used_again() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.detach(uuid)
    it.advance(BOUNDS.withhold_s_max - 1)
    assert it.phases() == ["withholding"]
    it.advance(2)
    given_up, withdrawn = it.last("detach-given-up").payload, it.last("withhold-withdrawn").payload
    assert isinstance(given_up, DetachGivenUp)
    assert JOB in given_up.reason
    assert isinstance(withdrawn, WithholdWithdrawn)
    assert not withdrawn.after_withheld
    assert it.phases() == ["online"]
    it.advance(1_000)
    assert it.names().count("detach-wanted") == 1


def test_an_answer_that_crosses_the_withdrawal_is_withdrawn_again() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.now += round(BOUNDS.withhold_s_max * 1e9)
    drafts = it.core.decide(it.now)  # decided before the answer is folded
    it.withhold()
    for draft in drafts:
        it.append("composer", draft)
    it.settle()
    assert it.last("withhold-withdrawn").payload.after_withheld
    assert it.phases() == ["visible"]
    it.release(uuid)
    it.settle()
    assert it.phases() == ["online"]
    assert not it.fabrics.detaching


def test_an_answer_that_comes_after_the_withdrawal_is_given_back() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.advance(BOUNDS.withhold_s_max + 1)
    asked = it.last("withhold-requested").payload
    assert isinstance(asked, WithholdRequested)
    it.write("scheduler", "device", uuid, "withheld", Withheld(request_id=asked.request_id))
    it.settle()
    withdrawn = it.last("withhold-withdrawn").payload
    assert isinstance(withdrawn, WithholdWithdrawn)
    assert (withdrawn.request_id, withdrawn.after_withheld) == (asked.request_id, True)
    assert it.phases() == ["online"]
    assert not it.fabrics.detaching


def test_force_says_so_with_the_holders() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.detach(uuid, force=True, may_force=True)
    asked = it.last("withhold-requested").payload
    assert isinstance(asked, WithholdRequested)
    assert asked.force
    it.withhold()
    it.settle()
    detaching = it.last("detaching").payload
    assert isinstance(detaching, CallStarted)
    assert detaching.forced
    assert detaching.holders == (JOB,)


def test_without_force_a_detachment_is_never_called_forced() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.withhold()
    it.settle()
    assert not it.last("detaching").payload.forced


def test_force_without_the_right_to_it_waits_like_any_other() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.detach(uuid, force=True, may_force=False)
    asked = it.last("withhold-requested").payload
    assert isinstance(asked, WithholdRequested)
    assert not asked.force


def test_a_device_that_is_not_there_any_more_is_detached() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.fabrics.on["one"][machine("n1")].clear()
    it.withdraw_all()
    detached = it.last("detached").payload
    assert isinstance(detached, DeviceDetached)
    assert detached.was_gone


@pytest.mark.parametrize("failure", [CallFailure.TIMEOUT, CallFailure.UNAVAILABLE, CallFailure.NONSENSE])
def test_a_failed_call_is_made_again(failure: CallFailure) -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.withhold()
    it.settle()
    it.fabrics.tell(it.fabrics.detaching[0], failure)
    it.advance(CALL_S * 2)
    assert [call.attempt for call in it.fabrics.begun] == [1, 2, 3]
    it.fabrics.finish(it.fabrics.detaching[0])
    it.settle()
    assert it.names()[-1] == "detached"


def test_what_the_fabric_refuses_stays_and_is_released_again() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.withhold()
    it.settle()
    it.fabrics.tell(it.fabrics.detaching[0], CallFailure.REFUSED, "locked")
    it.settle()
    assert it.last("detach-given-up").payload.reason == "locked"
    assert it.last("withhold-withdrawn").payload.after_withheld
    assert it.phases() == ["visible"]


def test_a_device_whose_detachment_nobody_knows_is_not_used_again_before_a_look_shows_it() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.withhold()
    it.settle()
    for _ in range(BOUNDS.attempts_max):
        call = it.fabrics.detaching[0]
        it.fabrics.tell(call, CallFailure.TIMEOUT)
        it.settle()
        assert "detach-given-up" not in it.names()
        it.advance(CALL_S + 10)
    given_up = it.last("detach-given-up")
    assert any(call.deadline_at < looked <= given_up.time for looked in it.fabrics.looked_at)


def test_a_device_is_not_used_again_while_its_fabric_cannot_be_seen_though_a_later_call_did_nothing() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.withhold()
    it.settle()
    it.fabrics.do(it.fabrics.detaching[0])
    it.fabrics.tell(it.fabrics.detaching[0], CallFailure.TIMEOUT)
    it.fabrics.blind = CallFailure.UNAVAILABLE
    for _ in range(60):
        it.advance(60)
        for call in it.fabrics.detaching:
            it.fabrics.tell(call, CallFailure.UNAVAILABLE)
        it.settle()
    assert it.phases() == ["detaching"]
    assert not it.fabrics.detaching
    it.fabrics.blind = None
    it.advance(400)
    assert it.last("detached").payload.was_gone
    assert "detach-given-up" not in it.names()


def test_a_device_that_was_gone_after_the_last_attempt_is_detached_not_given_up() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.withhold()
    it.settle()
    for _ in range(BOUNDS.attempts_max):
        it.fabrics.do(it.fabrics.detaching[0])
        it.fabrics.tell(it.fabrics.detaching[0], CallFailure.TIMEOUT)
        it.advance(CALL_S + 10)
    assert it.last("detached").payload.was_gone
    assert "detach-given-up" not in it.names()


def test_the_way_back_has_attempts_of_its_own() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.fabrics.tell(it.fabrics.attaching[0], CallFailure.UNAVAILABLE)
    it.advance(5)
    there = it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    it.plug()
    it.detach(there.device_uuid)
    it.withhold()
    it.settle()
    for _ in range(BOUNDS.attempts_max - 1):
        it.fabrics.tell(it.fabrics.detaching[0], CallFailure.UNAVAILABLE)
        it.advance(40)
    assert it.fabrics.detaching[0].attempt == 2 + BOUNDS.attempts_max
    assert "detach-given-up" not in it.names()


def test_devices_of_a_node_that_left_go_back_to_the_pool() -> None:
    it = composer_with("n1", "n2")
    it.bring("spread", size=2, allocation_policy="differentnode")
    it.leave("n1")
    it.settle()
    it.withdraw_all()
    assert it.fabrics.on["one"][machine("n1")] == []
    assert it.fabrics.free["one"][GPU, "NVIDIA-A100-PCIE-40GB"] == 7
    assert it.core.state.requests["spread"].is_live


def test_of_a_device_that_is_gone_nothing_is_withdrawn() -> None:
    it, uuid = with_one()
    it.leave("n1")
    it.settle()
    it.withdraw_all()
    assert "withhold-withdrawn" not in it.names("device", uuid)
    assert not it.core.state.attachments


def test_a_detachment_waits_for_room_before_attachments_do() -> None:
    it = composer_with("n1", "n2", limit=1)
    (uuid,) = it.bring("old", target_node="n1")
    it.compose("new", target_node="n2", size=2)
    it.detach(uuid)
    it.withhold()
    it.settle()
    it.fabrics.finish(it.fabrics.attaching[0])
    it.settle()
    assert [call.order for call in it.fabrics.detaching]
    assert not it.fabrics.attaching


def test_a_device_asked_for_twice_is_asked_to_withhold_once() -> None:
    it, uuid = with_one()
    it.detach(uuid)
    it.detach(uuid)
    it.decompose()
    assert it.names("device", uuid).count("withhold-requested") == 1
    assert it.core.state.attachments[next(iter(it.core.state.attachments))].phase is AttachmentPhase.WITHHOLDING


def test_a_device_that_nobody_knows_is_an_anomaly() -> None:
    it = composer_with("n1")
    it.detach("GPU-unknown")
    assert it.core.state.anomalies["detach of no device"] == 1


def test_force_that_comes_while_it_is_waited_for_asks_again_at_once() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.detach(uuid)
    first = it.last("withhold-requested").payload
    it.detach(uuid, force=True, may_force=True)
    again = it.last("withhold-requested").payload
    assert isinstance(first, WithholdRequested)
    assert isinstance(again, WithholdRequested)
    assert (again.request_id, again.force) == (first.request_id, True)
    it.withhold()
    it.settle()
    detaching = it.last("detaching").payload
    assert isinstance(detaching, CallStarted)
    assert detaching.holders == (JOB,)


def test_a_wish_that_comes_while_an_older_one_is_given_up_stays() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.detach(uuid)
    it.now = after(it.now, BOUNDS.withhold_s_max)
    drafts = it.core.decide(it.now)
    asked = DetachRequested(principal="ann", force=True, may_force=True)
    it.write("federation", "device", uuid, "detach-forwarded", asked)
    for draft in drafts:  # decided before that was folded
        it.append("composer", draft)
    it.advance(10)
    asked_again = it.last("withhold-requested").payload
    assert isinstance(asked_again, WithholdRequested)
    assert asked_again.force


def test_a_person_is_waited_for_longer_than_the_scaler() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.choose("s000001", devices=(uuid,))
    it.advance(5)
    it.detach(uuid)
    it.advance(BOUNDS.withhold_s_max - 10)
    assert it.phases() == ["withholding"]
    it.let_go()
    it.withdraw_all()
    assert it.names()[-1] == "detached"


def test_who_asks_again_does_not_wait_for_the_rest_of_what_was_given_up() -> None:
    it, uuid = with_one()
    it.hold("n1", 0)
    it.detach(uuid)
    it.advance(BOUNDS.withhold_s_max + 1)
    it.detach(uuid, force=True, may_force=True)
    it.advance(CROSSING_S)
    assert it.phases() == ["withholding"]


def test_a_device_that_its_fabric_does_not_give_back_is_tried_ever_more_rarely() -> None:
    it, uuid = with_one()
    it.decompose()
    for _ in range(1_000):
        it.advance(60)
        it.withhold()
        it.settle()
        for call in it.fabrics.detaching:
            it.fabrics.tell(call, CallFailure.REFUSED)
        it.settle()
        if it.phases() == ["visible"]:
            it.release(uuid)
    assert it.names().count("detach-wanted") < 15
    it.detach(uuid)
    it.advance(CROSSING_S)
    assert it.phases() == ["withholding"]


def test_a_request_that_is_deleted_once_more_by_force_takes_its_devices_from_their_job() -> None:
    it, _ = with_one()
    it.hold("n1", 0)
    it.decompose()
    it.decompose(force=True, may_force=True)
    it.withdraw_all()
    assert it.last("detaching").payload.holders == (JOB,)
    assert it.last("ended").subject_id == "r"


def test_a_job_that_was_given_back_to_the_federation_holds_nothing_any_more() -> None:
    it, _ = with_one()
    it.hold("n1", 0)
    state = it.core.state
    (attachment,) = state.attachments.values()
    assert (state.hosts.holds.jobs_on("n1"), state.hosts.holders(attachment)) == ((JOB,), (JOB,))
    it.write("scheduler", "job", JOB, "returned", JobReturned(assignment=1))
    assert (state.hosts.holds.jobs_on("n1"), state.hosts.holders(attachment)) == ((), ())
