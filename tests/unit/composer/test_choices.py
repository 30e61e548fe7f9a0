"""What the scaler chooses: all or nothing, back by uuid, and devices that move from node to node."""

import pytest

from kit.composer import BOUNDS, JOB, TRACE, composer_with
from kit.composer_fabrics import A100, machine
from muster.schemas.devices import GPU, Origin, RequestPhase
from muster.schemas.facts.composability import RequestAccepted, RequestEnded
from muster.schemas.facts.device import CallFailure
from muster.schemas.facts.scale import ScaleChosen, ScaleEnded, ScalePart


def test_a_choice_becomes_a_request_of_the_same_name_on_exactly_these_nodes() -> None:
    it = composer_with("n1", "n2")
    chosen = it.choose("s000001", ("n1", 2), ("n2", 1))
    fact = it.last("accepted")
    accepted = fact.payload
    assert isinstance(accepted, RequestAccepted)
    assert fact.subject_id == "s000001"
    assert [order.node for order in accepted.orders] == ["n1", "n1", "n2"]
    assert (accepted.origin, accepted.scale, accepted.jobs) == (Origin.SCALER, "s000001", (JOB,))
    assert accepted.all_or_nothing
    assert fact.causes == (chosen.id,)
    assert fact.trace == TRACE


def test_a_choice_that_the_pool_cannot_serve_is_refused_whole() -> None:
    it = composer_with("n1", "n2", pool=2)
    it.choose("s000001", ("n1", 2), ("n2", 1))
    assert it.last("refused").payload.field == "size"
    assert not it.fabrics.begun


def test_choices_of_one_moment_do_not_promise_the_same_devices() -> None:
    it = composer_with("n1", "n2", pool=3)
    for name, node in (("s000001", "n1"), ("s000002", "n2")):
        chosen = ScaleChosen(case=1, device_model=A100, parts=(ScalePart(node=node, count=2, fabric="one"),))
        it.write("scaler", "scale", name, "gpu-attach-chosen", chosen)
    it.settle()
    assert it.names("composability").count("accepted") == 1
    assert it.names("composability").count("refused") == 1


def test_if_one_device_cannot_be_had_the_others_go_back() -> None:
    it = composer_with("n1", "n2")
    it.choose("s000001", ("n1", 1), ("n2", 1))
    good, bad = it.fabrics.attaching
    it.fabrics.finish(good)
    it.fabrics.tell(bad, CallFailure.REFUSED, "broken slot")
    it.settle()
    assert it.core.state.requests["s000001"].phase is RequestPhase.CLEANING
    it.withdraw_all()
    ended = it.last("ended").payload
    assert isinstance(ended, RequestEnded)
    assert ended.failed
    assert ended.reason == "broken slot"
    assert it.fabrics.free["one"][GPU, A100] == 8


def test_what_was_not_begun_of_a_failed_choice_is_not_begun_any_more() -> None:
    it = composer_with("n1", limit=1)
    it.choose("s000001", ("n1", 3))
    it.fabrics.tell(it.fabrics.attaching[0], CallFailure.REFUSED)
    it.advance(10)
    assert len(it.fabrics.begun) == 1
    assert it.last("ended").payload.failed


def test_if_one_device_is_never_shown_by_its_node_the_others_go_back() -> None:
    it = composer_with("n1", "n2")
    it.choose("s000001", ("n1", 1), ("n2", 1))
    shown, unseen = (it.fabrics.finish(call) for call in it.fabrics.attaching)
    it.settle()
    it.show("n1", shown.device_uuid)
    it.release(shown.device_uuid)
    it.advance(BOUNDS.visible_s_max + 1)
    wanted = [fact.subject_id for fact in it.log if fact.name == "detach-wanted"]
    assert wanted == [it.core.state.attachments.by_uuid[uuid] for uuid in (unseen.device_uuid, shown.device_uuid)]
    it.withdraw_all()
    assert it.last("ended").payload.failed
    assert "did not show it" in it.last("ended").payload.reason
    assert it.fabrics.free["one"][GPU, A100] == 8


@pytest.mark.parametrize("loss", ["its node left", "a person took it"])
def test_a_choice_fails_when_one_of_its_devices_goes_before_all_are_there(loss: str) -> None:
    it = composer_with("n1", "n2")
    it.choose("s000001", ("n1", 1), ("n2", 1))
    first, second = (it.fabrics.finish(call) for call in it.fabrics.attaching)
    it.settle()
    it.show("n1", first.device_uuid)
    it.release(first.device_uuid)
    it.settle()
    if loss == "its node left":
        it.leave("n2")
        it.settle()
    else:
        it.detach(second.device_uuid)
    it.withdraw_all()
    ended = it.last("ended").payload
    assert ended.failed
    assert ended.reason == ("node n2 left the cluster" if loss == "its node left" else "ann asked for it")
    assert it.fabrics.free["one"][GPU, A100] == 8


def test_a_choice_that_was_carried_out_is_not_undone_by_a_later_loss() -> None:
    it = composer_with("n1")
    it.choose("s000001", ("n1", 2))
    for call in it.fabrics.attaching:
        it.fabrics.finish(call)
    it.settle()
    it.plug()
    it.fabrics.on["one"][machine("n1")].pop()
    it.advance(60)
    it.withdraw_all()
    it.advance(60)
    assert it.phases() == ["online"]


def test_a_failed_choice_ends_though_a_job_took_one_of_its_devices() -> None:
    it = composer_with("n1", "n2")
    it.choose("s000001", ("n1", 1), ("n2", 1))
    good, bad = it.fabrics.attaching
    it.fabrics.finish(good)
    it.settle()
    it.plug()
    it.hold("n1", 0)
    it.fabrics.tell(bad, CallFailure.REFUSED)
    it.advance(BOUNDS.withhold_s_max + 10)
    assert it.last("ended").payload.failed
    assert it.phases() == ["online"]


def test_devices_are_taken_back_by_uuid_and_the_choice_is_the_cause() -> None:
    it = composer_with("n1")
    it.choose("s000001", ("n1", 2))
    for call in it.fabrics.attaching:
        it.fabrics.finish(call)
    it.settle()
    it.plug()
    uuids = it.descriptions["n1"].gpu_uuids
    chosen = it.choose("s000002", devices=uuids)
    wanted = [fact for fact in it.log if fact.name == "detach-wanted"]
    assert [chosen.id in fact.causes for fact in wanted] == [True, True]
    it.withdraw_all()
    assert it.last("ended").subject_id == "s000001"
    assert it.fabrics.free["one"][GPU, A100] == 8


def test_a_held_device_is_given_up_within_the_scalers_own_bound() -> None:
    it = composer_with("n1")
    (uuid,) = it.bring(target_node="n1")
    it.hold("n1", 0)
    it.choose("s000001", devices=(uuid,))
    it.advance(BOUNDS.scaler_withhold_s + 1)
    given_up = it.last("detach-given-up")
    chosen = it.last("gpu-remove-chosen")
    assert chosen.id in given_up.causes
    assert it.phases() == ["online"]


def test_a_device_that_no_fabric_attached_is_refused() -> None:
    it = composer_with("n1")
    it.choose("s000001", devices=("GPU-soldered",))
    refused = it.last("refused")
    assert (refused.subject_id, refused.payload.field) == ("s000001", "devices")


def test_devices_that_move_come_back_first_and_then_go_out() -> None:
    it = composer_with("n1", "n2", pool=2)
    uuids = tuple(it.bring(size=2, target_node="n1"))
    it.choose("s000001", ("n2", 2), devices=uuids, moves=True)
    assert it.names("composability", "s000001") == []
    it.withdraw_all()
    assert it.last("accepted").subject_id == "s000001"
    for call in it.fabrics.attaching:
        it.fabrics.finish(call)
    it.settle()
    assert len(it.fabrics.on["one"][machine("n2")]) == 2
    assert it.fabrics.on["one"][machine("n1")] == []


def test_a_move_of_a_device_that_stays_is_refused_and_the_holder_is_named() -> None:
    it = composer_with("n1", "n2")
    (uuid,) = it.bring(target_node="n1")
    it.hold("n1", 0)
    it.choose("s000001", ("n2", 1), devices=(uuid,), moves=True)
    it.advance(BOUNDS.scaler_withhold_s + 1)
    refused = it.last("refused")
    assert refused.subject_id == "s000001"
    assert (refused.payload.field, refused.payload.holder) == ("devices", JOB)


def test_a_choice_for_a_node_that_left_meanwhile_is_refused() -> None:
    it = composer_with("n1")
    it.leave("n1")
    it.choose("s000001", ("n1", 1))
    assert it.last("refused").payload.field == "target_node"


def test_nobody_takes_over_the_name_of_a_choice() -> None:
    it = composer_with("n1")
    it.choose("s000001", ("n1", 1))
    it.compose("s000001", size=2)
    assert it.last("refused").payload.field == "name"
    assert it.core.state.requests["s000001"].phase is RequestPhase.UPDATING


def test_a_refused_choice_takes_nothing_from_who_asks_beside_it() -> None:
    it = composer_with("n1", "n2", pool=3)
    parts = (
        ScalePart(node=node, count=count, fabric="one", device_model=A100) for node, count in (("n1", 2), ("x", 1))
    )
    it.write(
        "scaler", "scale", "s000001", "gpu-attach-chosen", ScaleChosen(case=1, device_model=A100, parts=tuple(parts))
    )
    it.compose("mine", size=3, target_node="n2")
    assert it.last("refused").subject_id == "s000001"
    assert it.last("accepted").subject_id == "mine"


def test_a_choice_that_ended_while_its_request_waited_is_not_accepted_any_more() -> None:
    it = composer_with("n1", "n2", pool=1)
    (uuid,) = it.bring(target_node="n1")
    it.choose("s000001", ("n2", 1), devices=(uuid,), moves=True)
    it.write("scaler", "scale", "s000001", "ended", ScaleEnded(failed=True, reason="it took too long"))
    it.withdraw_all()
    it.advance(100)
    assert it.names("composability", "s000001") == []
    assert not it.fabrics.attaching
    assert "s000001" not in it.core.state.requests


def test_what_is_not_all_there_when_a_choice_ended_goes_back() -> None:
    it = composer_with("n1", "n2")
    it.choose("s000001", ("n1", 1), ("n2", 1))
    good, slow = it.fabrics.attaching
    it.fabrics.finish(good)
    it.settle()
    it.plug()
    it.write("scaler", "scale", "s000001", "ended", ScaleEnded(failed=True, reason="it took too long"))
    it.settle()
    it.fabrics.finish(slow)
    it.settle()
    it.withdraw_all()
    assert it.last("ended").subject_id == "s000001"
    assert it.last("ended").payload.reason == "it took too long"
    assert it.fabrics.free["one"][GPU, A100] == 8


def test_what_was_all_there_stays_when_its_choice_ended() -> None:
    it = composer_with("n1")
    it.choose("s000001", ("n1", 2))
    for call in it.fabrics.attaching:
        it.fabrics.finish(call)
    it.settle()
    it.plug()
    it.write("scaler", "scale", "s000001", "ended", ScaleEnded())
    it.advance(100)
    assert it.phases() == ["online", "online"]


def test_a_choice_that_ended_while_it_was_accepted_is_given_back() -> None:
    it = composer_with("n1")
    part = ScalePart(node="n1", count=1, fabric="one", device_model=A100)
    it.write("scaler", "scale", "s000001", "gpu-attach-chosen", ScaleChosen(case=1, device_model=A100, parts=(part,)))
    drafts = it.core.decide(it.now)
    it.write("scaler", "scale", "s000001", "ended", ScaleEnded(failed=True, reason="it took too long"))
    for draft in drafts:  # decided before that was folded
        it.append("composer", draft)
    it.settle()
    assert it.last("ended").payload.failed
    assert not it.fabrics.begun
