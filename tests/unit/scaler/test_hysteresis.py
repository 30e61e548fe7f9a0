"""What keeps devices and nodes from going: who waits, what has just moved, what has just failed."""

from kit.scaler_state import CDI, ScalerState, config
from muster.scaler.core.spare import Claims
from muster.schemas.facts.scale import NothingChosen, ScaleChosen


def claims(world: ScalerState) -> Claims:
    world.at_second(world.second)
    return Claims(world.state.demand, world.state.refused, world.state.cluster.fleet)


def test_a_waiting_job_claims_gpus_of_every_model_that_it_takes() -> None:
    world = ScalerState()
    job_id = world.waits("any", gpus=1)
    assert claims(world).on_model("A100") == claims(world).on_model("H100") == job_id
    other = ScalerState()
    other.waits("choosy", gpus=1, gpu_models=("A100",))
    assert claims(other).on_model("A100")
    assert not claims(other).on_model("H100")


def test_a_job_without_gpus_claims_nodes_but_no_gpu() -> None:
    world = ScalerState()
    world.waits("cpu", reason="cpu", gpus=0)
    assert claims(world).on_nodes()
    assert not claims(world).on_model("A100")


def test_a_job_that_waits_for_its_quota_claims_nothing() -> None:
    world = ScalerState()
    world.waits("poor", reason="quota", gpus=1)
    assert not claims(world).on_nodes()


def test_a_job_that_was_refused_goes_on_claiming_what_it_could_use_if_it_were_idle() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=2)
    fits, never = world.waits("fits", gpus=2), world.waits("never", gpus=3)
    for job_id in (fits, never):
        world.chosen(job_id, "nothing-chosen", NothingChosen(case=2, jobs=(job_id,), code="pool"))
    assert claims(world).on_model("A100") == fits
    world.ends(fits)
    assert claims(world).on_model("A100") == ""


def test_devices_idle_for_long_go_back_by_node_and_the_nodes_stay() -> None:
    world = ScalerState(config(CDI, node_unneeded_s=10_000.0))
    world.node("cdi-0001", gpus=2)
    world.node("cdi-0002", gpus=1)
    world.runs("web", "cdi-0001", cpu_milli=1_000)
    assert world.policies.scale_down.choices(world.at_second(99)) == []
    found = world.policies.scale_down.choices(world.at_second(100))
    assert [choice.name for choice in found] == ["gpu-remove-chosen"] * 2
    payloads = [choice.payload for choice in found if isinstance(choice.payload, ScaleChosen)]
    assert [(payload.node, payload.case) for payload in payloads] == [("cdi-0002", 3), ("cdi-0001", 3)]
    assert [set(payload.devices) for payload in payloads] == [set(world.uuids(one.node)) for one in payloads]
    assert "2 GPUs idle for 100 s on node cdi-0001, of 100 s allowed" in payloads[1].reason


def test_each_device_is_taken_by_one_choice_only() -> None:
    world = ScalerState()
    for index in (1, 2, 3):
        world.node(f"cdi-{index:04d}", gpus=2)
    world.runs("web", "cdi-0001", cpu_milli=1_000)
    found = world.policies.scale_down.choices(world.at_second(1_000))
    devices = [uuid for one in found if isinstance(one.payload, ScaleChosen) for uuid in one.payload.devices]
    assert len(devices) == len(set(devices)) == 6


def test_the_same_is_chosen_again_until_something_is_folded() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=2)
    assert (
        world.policies.scale_down.choices(world.at_second(200))
        == world.policies.scale_down.choices(world.at_second(200))
        != []
    )


def test_it_wakes_when_the_first_thing_may_go_and_never_for_what_may_go_already() -> None:
    world = ScalerState(config(CDI, delay_after_add_s=300.0))
    world.node("cdi-0001")
    moments = []
    now = world.at_second(0)
    while (wake := world.policies.scale_down.next_wakeup(now)) is not None:
        assert wake > now
        now = world.at_second(round((wake - world.log[0].time) / 1e9))
        moments.append(world.second)
        if world.policies.scale_down.choices(now):
            break
    assert moments == [60, 300]
