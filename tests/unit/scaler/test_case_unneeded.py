"""Case 3: a node is unneeded. Remove the node, or only its GPUs?"""

import pytest

from kit.scaler_state import CDI, PLAIN, ScalerState, config
from muster.core import Instant
from muster.scaler.core.autoscaler import NodeUnneeded
from muster.scaler.core.choices import Choice
from muster.scaler.core.scale_down import ScaleDownPass
from muster.schemas.devices import Origin
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.node import Released, WithholdRequested
from muster.schemas.facts.scale import NothingChosen, ScaleChosen, ScalePart

NODE = "cdi-0001"


def choose(
    world: ScalerState, second: float, node: str = NODE, *, one_pass: ScaleDownPass | None = None
) -> Choice | None:
    """What is chosen of a node that is unneeded since the world began."""
    now, since = world.at_second(second), Instant(world.log[0].time)
    one_pass = one_pass or world.policies.scale_down.begin(now)
    return one_pass.remove_node_or_gpus(NodeUnneeded(node, since))


def chosen(choice: Choice | None, name: str) -> ScaleChosen:
    assert choice is not None
    assert (choice.name, choice.payload.case) == (name, 3)
    assert not isinstance(choice.payload, NothingChosen)
    return choice.payload


def test_a_composable_nodes_gpus_go_back_first_all_of_them_if_the_node_will_follow() -> None:
    world = ScalerState(config(CDI.model_copy(update={"gpus_min": 1})))
    world.node(NODE, gpus=2)
    payload = chosen(choose(world, 200), "gpu-remove-chosen")
    assert (payload.node, payload.count, payload.device_model) == (NODE, 2, "A100")
    assert payload.devices == world.uuids(NODE)
    assert payload.watts == 100.0
    assert "save 100 W; then the node goes, 200 W more" in payload.reason
    assert [(one.gpus, one.nodes, one.chosen) for one in payload.alternatives] == [(2, 0, True), (2, 1, False)]


def test_a_composable_node_without_gpus_goes() -> None:
    world = ScalerState()
    world.node(NODE)
    payload = chosen(choose(world, 60), "node-remove-chosen")
    assert (payload.node, payload.group, payload.watts, payload.ready_s) == (NODE, "cdi", 200.0, 10.0)
    assert "unneeded for 60 s saves 200 W; gone in 10 s, another one would take 40 s" in payload.reason


def test_the_node_and_the_request_to_withhold_it_are_said_together() -> None:
    world = ScalerState()
    world.node(NODE)
    choice = choose(world, 60)
    assert choice is not None
    removal, request = choice.drafts("s000007")
    assert removal.together == request.together != ""
    assert isinstance(removal.payload, ScaleChosen)
    assert isinstance(request.payload, WithholdRequested)
    assert removal.payload.request_id == request.payload.request_id == "s000007"
    assert (request.kind, request.subject_id, request.payload.force) == ("node", NODE, False)


def test_a_composable_node_stays_while_taking_it_away_would_have_saved_nothing_yet() -> None:
    world = ScalerState(config(CDI.model_copy(update={"provision_s": 300.0, "deprovision_s": 20.0})))
    world.node(NODE)
    assert choose(world, 319) is None
    chosen(choose(world, 320), "node-remove-chosen")


def test_only_gpus_go_while_the_node_does_not_pay_and_its_least_stays_on_it() -> None:
    world = ScalerState(config(CDI.model_copy(update={"provision_s": 300.0, "gpus_min": 1})))
    world.node(NODE, gpus=3)
    payload = chosen(choose(world, 200), "gpu-remove-chosen")
    assert payload.count == 2
    assert "the node stays: unneeded for 200 s, removing and adding one takes 310 s" in payload.reason
    assert [one.fits for one in payload.alternatives] == [True, False]


def test_an_ordinary_node_goes_with_its_gpus_when_its_time_is_over() -> None:
    world = ScalerState(config(PLAIN))
    world.node("plain-0001", gpus=2, model="H100", group="plain")
    payload = chosen(choose(world, 60, "plain-0001"), "node-remove-chosen")
    assert payload.watts == PLAIN.idle_w + 2 * 60.0


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_group_keeps_its_least_number_of_nodes(gpus: int) -> None:
    world = ScalerState(config(CDI.model_copy(update={"nodes_min": 1})))
    world.node(NODE, gpus=gpus)
    choice = choose(world, 200)
    if gpus:
        assert "the node stays: the group keeps 1 nodes" in chosen(choice, "gpu-remove-chosen").reason
    else:
        assert choice is None


def test_nodes_that_are_chosen_together_leave_the_least_together() -> None:
    world = ScalerState(config(CDI.model_copy(update={"nodes_min": 1})))
    world.node(NODE)
    world.node("cdi-0002")
    one_pass = world.policies.scale_down.begin(world.at_second(200))
    assert choose(world, 200, one_pass=one_pass) is not None
    assert choose(world, 200, "cdi-0002", one_pass=one_pass) is None


def test_a_node_that_is_leaving_counts_as_gone() -> None:
    world = ScalerState(config(CDI.model_copy(update={"nodes_min": 1})))
    world.node(NODE)
    world.node("cdi-0002")
    world.chosen("s000001", "node-remove-chosen", ScaleChosen(case=3, group="cdi", node=NODE, request_id="s000001"))
    assert choose(world, 200, "cdi-0002") is None
    assert choose(world, 200) is None


def test_nothing_goes_from_a_node_that_holds_a_job() -> None:
    world = ScalerState()
    world.node(NODE, gpus=2)
    world.runs("busy", NODE, cpu_milli=1_000)
    assert choose(world, 200) is None


def test_gpus_that_a_waiting_job_could_use_stay_and_so_does_the_node() -> None:
    world = ScalerState()
    world.node(NODE, gpus=2)
    world.node("cdi-0002")
    world.waits("later", gpus=1, gpu_models=("A100",))
    assert choose(world, 200) is None
    assert choose(world, 200, "cdi-0002") is None


def test_a_waiting_job_of_another_model_keeps_no_gpu() -> None:
    world = ScalerState()
    world.node(NODE, gpus=2)
    world.waits("other", gpus=1, gpu_models=("H100",))
    payload = chosen(choose(world, 200), "gpu-remove-chosen")
    assert payload.count == 2
    assert "waits and could use it" in payload.reason


def test_a_job_that_was_refused_and_could_never_use_what_there_is_keeps_nothing() -> None:
    world = ScalerState()
    world.node(NODE, gpus=2)
    job_id = world.waits("huge", gpus=3, gpu_models=("A100",))
    assert choose(world, 200) is None
    world.chosen(job_id, "nothing-chosen", NothingChosen(case=2, jobs=(job_id,), code="pool"))
    assert chosen(choose(world, 200), "gpu-remove-chosen").count == 2


def test_the_warm_reserve_stays() -> None:
    world = ScalerState(config(CDI.model_copy(update={"warm_gpus": 2})))
    world.node(NODE, gpus=2)
    world.node("cdi-0002", gpus=1)
    payload = chosen(choose(world, 200), "gpu-remove-chosen")
    assert payload.count == 1
    assert "the node stays: the group keeps 2 idle GPUs" in payload.reason


def test_no_node_goes_a_moment_after_one_was_added_to_its_group() -> None:
    world = ScalerState(config(delay_after_add_s=500.0))
    world.node(NODE)
    assert choose(world, 499) is None
    assert choose(world, 500) is not None


def test_nothing_goes_for_a_while_after_something_could_not_be_taken() -> None:
    world = ScalerState(config(delay_after_failure_s=180.0))
    world.node(NODE, gpus=1)
    removal = ScaleChosen(case=3, group="cdi", node=NODE, devices=world.uuids(NODE))
    world.at_second(200)
    world.chosen("s000001", "gpu-remove-chosen", removal)
    assert choose(world, 201) is None
    world.ended("s000001", failed=True)
    assert choose(world, 380) is None
    assert choose(world, 381) is not None


def test_a_device_that_was_attached_a_moment_ago_stays() -> None:
    world = ScalerState()
    world.node(NODE)
    world.at_second(100)
    world.node(NODE, gpus=1)
    assert choose(world, 190) is None
    assert chosen(choose(world, 200), "gpu-remove-chosen").count == 1


def test_a_device_that_is_not_online_yet_is_not_taken_and_its_node_does_not_go() -> None:
    world = ScalerState()
    world.node(NODE, gpus=1, fresh=True)
    assert choose(world, 500) is None


def test_devices_that_somebody_asked_for_stay_and_so_does_their_node() -> None:
    world = ScalerState(config(CDI.model_copy(update={"gpus_min": 1})))
    world.node(NODE, gpus=2)
    mine, _ = world.uuids(NODE)
    world.write("composer", "attachment", f"a-{mine}", "detached", DeviceDetached(device_uuid=mine, node=NODE))
    world.attachment(mine, NODE, "A100", origin=Origin.REQUEST)
    payload = chosen(choose(world, 200), "gpu-remove-chosen")
    assert mine not in payload.devices
    assert payload.count == 1
    assert "the node stays: mine asked for devices on it" in payload.reason


def test_a_node_that_carries_memory_of_a_fabric_stays() -> None:
    world = ScalerState()
    world.node(NODE)
    world.attachment("CXL-1", NODE, "CXL-512", device_type="cxlmemory")
    assert choose(world, 200) is None


def test_a_node_keeps_its_least_while_a_device_of_it_cannot_go_yet() -> None:
    world = ScalerState(config(CDI.model_copy(update={"gpus_min": 2})))
    world.node(NODE, gpus=2)
    world.at_second(150)
    uuids = (*world.uuids(NODE), "GPU-new")
    world.attachment("GPU-new", NODE, "A100")
    world.write("agent", "node", NODE, "joined", world.description(NODE, uuids, model="A100", group="cdi"))
    world.write("scheduler", "device", "GPU-new", "released", Released())
    assert chosen(choose(world, 200), "gpu-remove-chosen").count == 1
    assert chosen(choose(world, 250), "gpu-remove-chosen").count == 3


def test_a_node_to_which_a_device_is_on_its_way_stays() -> None:
    world = ScalerState()
    world.node(NODE)
    world.attachment("GPU-new", NODE, "A100", is_online=False)
    assert choose(world, 200) is None


def test_a_node_for_which_something_is_chosen_stays() -> None:
    world = ScalerState()
    world.node(NODE)
    part = ScalePart(node=NODE, count=1, fabric="rack", device_model="A100")
    world.chosen("s000001", "gpu-attach-chosen", ScaleChosen(case=1, group="cdi", node=NODE, parts=(part,)))
    assert choose(world, 200) is None


def test_a_node_with_a_device_of_which_the_composer_has_not_told_stays() -> None:
    world = ScalerState()
    joined = world.description(NODE, ("GPU-1",), model="A100", group="cdi")
    world.write("agent", "node", NODE, "joined", joined)
    world.write("scheduler", "node", NODE, "released", Released())
    assert choose(world, 200) is None
