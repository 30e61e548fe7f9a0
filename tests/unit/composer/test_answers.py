"""What people see: devices, requests and fabrics, and whether something may be before they ask for it."""

from kit.composer import JOB, VirtualComposer, composer_with, config
from kit.composer_fabrics import A100
from muster.composer.core.answers import (
    answer_compose_check,
    answer_detach_check,
    answer_devices,
    answer_requests,
)
from muster.schemas.devices import AttachmentPhase, BreakerState, ComposabilitySpec, RequestPhase
from muster.schemas.facts.device import CallFailure
from muster.schemas.facts.job import PodsStarted
from muster.schemas.queries import AskCompose, AskDetach, AskFleet, DeviceCheckAnswer


def check(it: VirtualComposer, *, may_force: bool = False, **spec: object) -> DeviceCheckAnswer:
    body = ComposabilitySpec.model_validate({"model": A100, "size": 1, **spec})
    return answer_compose_check(it.core, AskCompose(name="r", spec=body, may_force=may_force), it.now)


def holders(it: VirtualComposer) -> dict[str, tuple[str, ...]]:
    return {one.device_uuid: one.holders for one in answer_devices(it.core, AskFleet(), it.now).devices}


def test_devices_are_listed_with_who_holds_them() -> None:
    it = composer_with("n1")
    it.bring(size=2, target_node="n1")
    it.hold("n1", 1)
    devices = answer_devices(it.core, AskFleet(), it.now).devices
    assert [(one.node, one.phase) for one in devices] == [("n1", AttachmentPhase.ONLINE)] * 2
    assert holders(it) == {"GPU-1": (), "GPU-2": (JOB,)}
    assert {one.request for one in devices} == {"r"}


def test_while_the_kubelet_has_picked_for_a_job_unseen_every_device_of_its_node_may_be_held() -> None:
    it = composer_with("n1")
    it.bring(size=2, target_node="n1")
    it.hold("n1", counted=1)
    assert holders(it) == {"GPU-1": (JOB,), "GPU-2": (JOB,)}
    by_force = AskDetach(device_uuid="GPU-2", force=True)
    assert answer_detach_check(it.core, by_force, it.now).holder == JOB


def test_a_device_that_the_kubelet_picked_is_held_by_the_job_that_was_seen_with_it() -> None:
    it = composer_with("n1")
    it.bring(size=2, target_node="n1")
    it.hold("n1", counted=1)
    it.write("agent", "job", JOB, "pods-started", PodsStarted(attempt=1, device_uuids=(("GPU-2",),)))
    assert holders(it) == {"GPU-1": (), "GPU-2": (JOB,)}, "places are numbers of the scheduler's"


def test_a_device_on_its_way_shows_its_attempt_and_what_went_wrong() -> None:
    it = composer_with("n1")
    it.compose(target_node="n1")
    it.fabrics.tell(it.fabrics.attaching[0], CallFailure.UNAVAILABLE, "busy")
    it.settle()
    (view,) = answer_devices(it.core, AskFleet(), it.now).devices
    assert (view.phase, view.attempt, view.error) == (AttachmentPhase.ATTACHING, 1, "busy")


def test_fabrics_show_their_pool_their_calls_and_their_breaker() -> None:
    it = composer_with("n1", limit=3)
    it.compose(size=4)
    (view,) = answer_devices(it.core, AskFleet(), it.now).fabrics
    assert (view.in_flight, view.limit, view.breaker) == (3, 3, BreakerState.CLOSED)
    assert [(model.model, model.free) for model in view.pool] == [(A100, 8)]


def test_a_fabric_that_answers_nonsense_is_shown_as_such() -> None:
    it = composer_with("n1")
    it.fabrics.blind = CallFailure.NONSENSE
    it.advance(40)
    (view,) = answer_devices(it.core, AskFleet(), it.now).fabrics
    assert view.error == "nobody there"
    it.advance(60)
    (view,) = answer_devices(it.core, AskFleet(), it.now).fabrics
    assert view.breaker is not BreakerState.CLOSED


def test_requests_are_listed_newest_first_with_their_devices_and_refusals() -> None:
    it = composer_with("n1")
    it.bring("first", size=2)
    it.advance(1)
    it.compose("second", model="L4")
    views = answer_requests(it.core, AskFleet(), it.now).requests
    assert [(view.name, view.phase) for view in views] == [
        ("second", RequestPhase.REFUSED),
        ("first", RequestPhase.RUNNING),
    ]
    assert views[0].field == "model"
    assert len(views[1].resources) == 2


def test_a_request_that_cannot_be_judged_yet_is_listed() -> None:
    it = VirtualComposer(config())
    it.node("n1")
    it.compose(target_node="n1", settle=False)
    (view,) = answer_requests(it.core, AskFleet(), it.now).requests
    assert (view.name, view.phase, view.spec.target_node) == ("r", RequestPhase.NODE_ALLOCATING, "n1")


def test_a_check_says_what_the_request_would_be_told() -> None:
    it = composer_with("n1")
    assert check(it) == DeviceCheckAnswer()
    assert check(it, model="L4").field == "model"
    assert check(it, size=9).field == "size"
    assert check(it, target_node="nowhere").field == "target_node"
    first = len(it.log)
    assert it.settle() == []
    assert len(it.log) == first


def test_a_check_names_the_holder_that_force_would_hurt() -> None:
    it = composer_with("n1")
    it.bring(size=1)
    it.hold("n1", 0)
    answer = check(it, size=0, force_detach=True)
    assert (answer.field, answer.holder) == ("force_detach", JOB)
    assert check(it, size=0, force_detach=True, may_force=True) == DeviceCheckAnswer()


def test_a_detachment_is_checked_by_device_and_by_request() -> None:
    it = composer_with("n1")
    it.bring(size=1)
    it.hold("n1", 0)
    held = AskDetach(device_uuid="GPU-1")
    assert answer_detach_check(it.core, held, it.now) == DeviceCheckAnswer()
    by_force = answer_detach_check(it.core, held.model_copy(update={"force": True}), it.now)
    assert (by_force.field, by_force.holder) == ("force", JOB)
    assert answer_detach_check(it.core, AskDetach(device_uuid="GPU-9"), it.now).unknown
    assert answer_detach_check(it.core, AskDetach(request="r"), it.now) == DeviceCheckAnswer()
    assert answer_detach_check(it.core, AskDetach(request="r", force=True), it.now).holder == JOB
    assert answer_detach_check(it.core, AskDetach(request="none"), it.now).unknown
