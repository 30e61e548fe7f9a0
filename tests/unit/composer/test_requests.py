"""Requests: where their devices go, how they grow, shrink and end, and why they are refused."""

from collections import Counter

import pytest

from kit.composer import BOUNDS, JOB, VirtualComposer, composer_with, config
from kit.composer_fabrics import A100, H100, machine
from muster.schemas.devices import GPU, RequestPhase
from muster.schemas.facts.composability import RequestAccepted, RequestEnded, RequestRefused
from muster.schemas.facts.device import CallFailure
from muster.schemas.facts.node import NodeLost


def nodes_of(it: VirtualComposer, name: str = "accepted") -> Counter[str]:
    accepted = it.last(name).payload
    assert isinstance(accepted, RequestAccepted)
    return Counter(order.node for order in accepted.orders)


def refusal(it: VirtualComposer) -> RequestRefused:
    refused = it.last("refused").payload
    assert isinstance(refused, RequestRefused)
    return refused


# --- where devices go ------------------------------------------------------------------------------------------------


def test_the_published_sample_is_accepted_as_it_stands() -> None:
    it = composer_with("node1")
    it.compose(type="gpu", size=2, model=A100, target_node="node1", force_detach=True, allocation_policy="samenode")
    assert nodes_of(it) == {"node1": 2}
    assert len(it.fabrics.attaching) == 2


def test_samenode_goes_to_one_node_that_takes_all() -> None:
    it = composer_with("n1", "n2")
    it.bring("first", size=2, target_node="n1")
    it.compose("second", size=3)
    assert nodes_of(it) == {"n2": 3}


def test_samenode_fills_further_nodes_only_if_no_node_takes_all() -> None:
    it = composer_with("n1", "n2", pool=8)
    it.compose(size=6)
    assert sorted(nodes_of(it).values()) == [2, 4]


def test_samenode_leaves_nodes_to_other_requests_where_it_can() -> None:
    it = composer_with("n1", "n2")
    it.compose("first", size=1)
    it.compose("second", size=1)
    assert [fact.payload.orders[0].node for fact in it.log if fact.name == "accepted"] == ["n1", "n2"]


@pytest.mark.parametrize("word", ["differentnode", "roundrobin"])
def test_spreading_goes_evenly_over_nodes(word: str) -> None:
    it = composer_with("n1", "n2", "n3")
    it.compose(size=5, allocation_policy=word)
    assert sorted(nodes_of(it).values()) == [1, 2, 2]


def test_spreading_counts_what_the_request_has_already() -> None:
    it = composer_with("n1", "n2")
    it.bring(size=2, allocation_policy="differentnode")
    it.compose(size=4, allocation_policy="differentnode")
    assert nodes_of(it) == {"n1": 1, "n2": 1}


def test_nodes_that_are_not_released_are_not_chosen() -> None:
    it = composer_with("n2")
    it.node("n1", released=False)
    it.compose(size=1)
    assert nodes_of(it) == {"n2": 1}


def test_nodes_of_groups_without_a_fabric_are_not_chosen() -> None:
    it = composer_with("n2")
    it.node("a-fixed-one", group="ordinary")
    it.compose(size=1)
    assert nodes_of(it) == {"n2": 1}


def test_a_node_keeps_to_one_model_of_gpu() -> None:
    it = composer_with("n1", "n2")
    it.fabrics.stock("one", (GPU, H100), 4)
    it.advance(60)
    it.bring("first", size=1, target_node="n1")
    it.compose("second", size=1, model=H100)
    assert nodes_of(it) == {"n2": 1}


def test_what_is_reserved_is_not_promised_again() -> None:
    it = composer_with("n1", "n2", pool=4, limit=1)
    it.compose("first", size=3, target_node="n1", settle=False)
    it.compose("second", size=2, target_node="n2")
    assert refusal(it).field == "size"
    assert "1 " in refusal(it).reason


def test_other_spec_is_compared_with_what_jobs_leave_free() -> None:
    it = composer_with("n1", "n2")
    it.hold("n1", cpu_milli=40_000)
    it.compose(size=1, other_spec={"milli_cpu": 30_000})
    assert nodes_of(it) == {"n2": 1}


# --- how they change and end -----------------------------------------------------------------------------------------


def test_a_request_runs_when_all_its_devices_are_online() -> None:
    it = composer_with("n1")
    it.bring(size=2)
    assert it.core.state.requests["r"].phase is RequestPhase.RUNNING


def test_a_larger_size_adds_only_what_is_missing() -> None:
    it = composer_with("n1")
    it.bring(size=2)
    it.compose(size=3)
    assert sum(nodes_of(it).values()) == 1


def test_the_same_again_changes_nothing() -> None:
    it = composer_with("n1")
    it.bring(size=2)
    it.compose(size=2)
    accepted = it.last("accepted").payload
    assert isinstance(accepted, RequestAccepted)
    assert not accepted.orders
    assert not accepted.devices
    assert it.core.state.requests["r"].phase is RequestPhase.RUNNING


def test_victims_are_those_not_begun_then_on_the_way_then_online_idle_first() -> None:
    it = composer_with("n1", limit=1)
    uuids = it.bring(size=2, target_node="n1")
    it.hold("n1", 0)
    it.compose(size=4, target_node="n1")
    requests = it.core.state.attachments
    order = []
    for size in (3, 2, 1):
        it.compose(size=size, target_node="n1", settle=False)
        it.settle()
        accepted = it.last("accepted").payload
        assert isinstance(accepted, RequestAccepted)
        order += [requests[name].device_uuid if name in requests else "never begun" for name in accepted.devices]
    assert order == ["never begun", "", uuids[1]]


def test_size_zero_gives_all_back_and_keeps_the_request() -> None:
    it = composer_with("n1")
    it.bring(size=2)
    it.compose(size=0)
    it.withdraw_all()
    assert it.fabrics.free["one"][GPU, A100] == 8
    assert it.core.state.requests["r"].is_live


def test_a_deleted_request_ends_when_its_last_device_is_back() -> None:
    it = composer_with("n1")
    it.bring(size=2)
    it.decompose()
    assert it.core.state.requests["r"].phase is RequestPhase.CLEANING
    it.withdraw_all()
    ended = it.last("ended").payload
    assert isinstance(ended, RequestEnded)
    assert not ended.failed
    assert it.fabrics.free["one"][GPU, A100] == 8


def test_a_held_device_of_a_deleted_request_is_tried_until_it_goes() -> None:
    it = composer_with("n1")
    it.bring(size=1)
    it.hold("n1", 0)
    it.decompose()
    it.advance(BOUNDS.withhold_s_max * 2 + 200)
    assert it.names().count("detach-wanted") >= 2
    it.let_go()
    it.withdraw_all()
    assert it.last("ended").subject_id == "r"


def test_a_device_taken_by_hand_does_not_come_again() -> None:
    it = composer_with("n1")
    uuids = it.bring(size=2)
    it.detach(uuids[0])
    it.withdraw_all()
    it.advance(600)
    assert len(it.fabrics.begun) == 3
    assert it.core.state.requests["r"].phase is RequestPhase.RUNNING


def test_a_request_ends_with_its_target_node() -> None:
    it = composer_with("n1")
    it.bring(size=2, target_node="n1")
    it.leave("n1")
    it.settle()
    it.withdraw_all()
    ended = it.last("ended").payload
    assert isinstance(ended, RequestEnded)
    assert ended.failed
    assert "n1 left" in ended.reason
    assert it.fabrics.free["one"][GPU, A100] == 8


def test_a_name_may_be_used_again_after_its_end() -> None:
    it = composer_with("n1")
    it.bring(size=1)
    it.decompose()
    it.withdraw_all()
    it.show("n1")
    it.bring(size=2)
    assert it.core.state.requests["r"].phase is RequestPhase.RUNNING


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        ({"model": "L4"}, "model", "no fabric has gpu of model L4; known: NVIDIA-A100-PCIE-40GB"),
        ({"type": "fpga"}, "type", "known: cxlmemory, gpu"),
        ({"size": 9, "allocation_policy": "differentnode"}, "size", "room for 8 more, 9 are requested"),
        ({"size": 5, "target_node": "n1"}, "size", "node n1 has room for 4 more, 5 are requested"),
        ({"size": 7}, "size", "6 NVIDIA-A100-PCIE-40GB are free in the pools of these nodes, 7 are requested"),
        ({"target_node": "gone"}, "target_node", "node gone left the cluster"),
        ({"target_node": "never"}, "target_node", "node never is not part of the cluster"),
        ({"target_node": "fixed"}, "target_node", "node fixed is not composable"),
        ({"target_node": "lost"}, "target_node", "node lost is lost"),
        ({"target_node": "n1", "other_spec": {"milli_cpu": 64_001}}, "other_spec.milli_cpu", "has 64000 free"),
        ({"target_node": "n1", "other_spec": {"memory": 2**50}}, "other_spec.memory", "bytes free"),
        ({"target_node": "n1", "other_spec": {"allowed_pod_number": 9}}, "other_spec.allowed_pod_number", "remove it"),
    ],
)
def test_what_cannot_be_is_refused_and_the_field_is_named(spec: dict[str, object], field: str, says: str) -> None:
    it = composer_with("n1", "n2", pool=6)
    it.node("fixed", group="ordinary")
    it.node("gone")
    it.leave("gone")
    it.node("lost")
    it.write("agent", "node", "lost", "lost", NodeLost(reason="silence"))
    it.compose(**spec)
    assert refusal(it).field == field
    assert says in refusal(it).reason
    assert it.core.state.requests["r"].phase is RequestPhase.REFUSED
    assert not it.fabrics.begun


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ({"target_node": "n1"}, {"target_node": "n1"}, "target_node"),
        ({"allocation_policy": "differentnode"}, {"allocation_policy": "differentnode"}, "allocation_policy"),
    ],
)
def test_conflicting_requests_are_refused_and_the_other_is_named(
    first: dict[str, object], second: dict[str, object], field: str
) -> None:
    it = composer_with("n1", "n2")
    it.compose("mine", **first)
    it.compose("yours", **second)
    assert (refusal(it).field, refusal(it).holder) == (field, "mine")


def test_of_conflicting_requests_at_the_same_moment_one_is_refused() -> None:
    it = composer_with("n1")
    it.compose("mine", target_node="n1", settle=False)
    it.compose("yours", target_node="n1")
    assert it.names("composability").count("accepted") == 1
    assert refusal(it).holder == "mine"


def test_shrinking_by_force_what_is_held_needs_the_right_to_it() -> None:
    it = composer_with("n1")
    it.bring(size=1, target_node="n1")
    it.hold("n1", 0)
    it.compose(size=0, target_node="n1", force_detach=True)
    assert (refusal(it).field, refusal(it).holder) == ("force_detach", JOB)
    it.compose(size=0, target_node="n1", force_detach=True, may_force=True)
    assert it.last("withhold-requested").payload.force


def test_deleting_by_force_what_is_held_needs_the_right_to_it() -> None:
    it = composer_with("n1")
    it.bring(size=1)
    it.hold("n1", 0)
    it.decompose(force=True)
    assert (refusal(it).field, refusal(it).holder) == ("force", JOB)
    assert it.core.state.requests["r"].phase is RequestPhase.RUNNING
    it.decompose(force=True, may_force=True)
    assert it.last("withhold-requested").payload.force


def test_a_request_with_devices_keeps_its_model_and_node() -> None:
    it = composer_with("n1", "n2")
    it.bring(size=1, target_node="n1")
    it.compose(size=1, target_node="n2")
    assert refusal(it).field == "target_node"
    assert it.core.state.requests["r"].is_live


def test_a_request_that_is_being_deleted_takes_no_change() -> None:
    it = composer_with("n1")
    it.bring(size=1)
    it.decompose()
    it.compose(size=2)
    assert refusal(it).field == "name"


def test_deleting_what_is_not_there_is_refused() -> None:
    it = composer_with("n1")
    it.decompose("nobody")
    assert refusal(it).field == "name"


def test_models_that_may_not_stand_together_are_refused_and_the_other_is_named() -> None:
    it = composer_with("n1", memory=2)
    it.bring("gpus", size=1, target_node="n1")
    it.compose("memory", type="cxlmemory", model="CXL-128", target_node="n1")
    assert refusal(it).field == "model"
    assert A100 in refusal(it).reason


def test_an_open_breaker_is_no_refusal() -> None:
    it = composer_with("n1")
    it.core.state.fabrics["one"].retry_at = it.now + 10**12
    it.compose(target_node="n1")
    assert it.names("composability")[-1] == "accepted"
    assert not it.fabrics.begun


def test_a_request_waits_until_the_fabric_told_what_it_holds() -> None:
    it = VirtualComposer(config())
    it.node("n1")
    it.compose(target_node="n1", settle=False)
    assert "refused" not in it.names("composability")
    it.fabrics.stock("one", (GPU, A100), 1)
    it.advance(1)
    assert it.names("composability")[-1] == "accepted"


def test_a_request_that_waits_can_be_taken_back() -> None:
    it = VirtualComposer(config())
    it.fabrics.blind = CallFailure.UNAVAILABLE
    it.node("n1")
    it.compose(target_node="n1")
    it.decompose()
    assert it.names("composability")[-2:] == ["refused", "refused"]
    it.fabrics.blind = None
    it.fabrics.stock("one", (GPU, A100), 1)
    it.advance(100)
    assert not it.fabrics.begun


def test_a_fabric_that_never_tells_what_it_holds_ends_the_wait() -> None:
    it = VirtualComposer(config())
    it.fabrics.blind = CallFailure.UNAVAILABLE
    it.node("n1")
    it.compose(target_node="n1")
    it.advance(BOUNDS.attach_s_max + 1)
    assert "has not been surveyed" in refusal(it).reason


def test_ids_are_the_same_for_every_instance() -> None:
    one, other = composer_with("n1"), composer_with("n1")
    for it in (one, other):
        it.compose(size=2)
    assert [call.order for call in one.fabrics.begun] == [call.order for call in other.fabrics.begun]
    assert one.fabrics.begun[0].machine == machine("n1")


@pytest.mark.parametrize("size", [0, 1])
def test_the_target_node_is_asked_for_whatever_the_size(size: int) -> None:
    it = composer_with("n1")
    it.compose(size=size, target_node="nowhere")
    refused = it.last("refused").payload
    assert isinstance(refused, RequestRefused)
    assert refused.field == "target_node"


def test_a_changed_other_spec_is_judged_though_the_size_stays() -> None:
    it = composer_with("n1")
    it.bring(target_node="n1")
    it.compose(target_node="n1", other_spec={"milli_cpu": 999_999})
    refused = it.last("refused").payload
    assert isinstance(refused, RequestRefused)
    assert refused.field == "other_spec.milli_cpu"


def test_a_request_of_size_0_is_not_accepted_with_what_no_node_has() -> None:
    it = composer_with("n1", "n2")
    it.compose(size=0, other_spec={"milli_cpu": 999_999})
    refused = it.last("refused").payload
    assert isinstance(refused, RequestRefused)
    assert refused.field == "other_spec.milli_cpu"
    it.compose(size=0, other_spec={"milli_cpu": 1_000})
    assert it.last("accepted").subject_id == "r"
