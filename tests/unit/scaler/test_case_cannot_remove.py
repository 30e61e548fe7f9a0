"""Case 4: the node cannot go. Its idle GPUs go back to the pool, held ones stay."""

from kit.scaler_state import CDI, ScalerState, config
from muster.core import Instant
from muster.scaler.core.autoscaler import RemovalBlocked
from muster.scaler.core.choices import Choice
from muster.schemas.facts.scale import ScaleChosen

NODE = "cdi-0001"


def choose(world: ScalerState, second: float) -> Choice | None:
    now, since = world.at_second(second), Instant(world.log[0].time)
    signal = RemovalBlocked(NODE, since, "held by web (no GPU)", ("J",))
    return world.policies.scale_down.begin(now).return_gpus(signal)


def chosen(choice: Choice | None) -> ScaleChosen:
    assert choice is not None
    assert choice.name == "gpu-remove-chosen"
    assert isinstance(choice.payload, ScaleChosen)
    assert choice.payload.case == 4
    return choice.payload


def test_a_pod_without_gpu_holds_the_node_and_its_idle_gpus_go_back() -> None:
    world = ScalerState()
    world.node(NODE, gpus=2)
    world.runs("web", NODE, cpu_milli=1_000)
    payload = chosen(choose(world, 150))
    assert payload.devices == world.uuids(NODE)
    assert (
        "node cdi-0001, hardly used for 150 s, cannot go: held by web (no GPU). 2 GPUs idle for 150 s" in payload.reason
    )
    assert [(one.nodes, one.fits, one.chosen) for one in payload.alternatives] == [(0, True, True), (1, False, False)]


def test_a_gpu_that_is_held_stays() -> None:
    world = ScalerState()
    world.node(NODE, gpus=3)
    world.runs("train", NODE, 1)
    first, held, last = world.uuids(NODE)
    payload = chosen(choose(world, 150))
    assert payload.devices == (first, last)
    assert held not in payload.devices


def test_a_gpu_of_which_a_share_is_held_stays() -> None:
    world = ScalerState()
    world.node(NODE, gpus=1)
    job_id = world.runs("share", NODE, 0, gpus=0, gpu_milli=100)
    assert choose(world, 150) is None
    world.ends(job_id)
    assert choose(world, 200) is None, "it has not been idle for its time"
    assert choose(world, 250) is not None


def test_a_gpu_idle_for_a_moment_only_stays() -> None:
    world = ScalerState()
    world.node(NODE, gpus=1)
    world.runs("web", NODE, cpu_milli=1_000)
    world.at_second(140)
    world.ends(world.runs("short", NODE, 0))
    assert choose(world, 199) is None
    assert chosen(choose(world, 200)).count == 1


def test_the_nodes_least_and_the_groups_reserve_stay() -> None:
    for limits in ({"gpus_min": 2}, {"warm_gpus": 2}):
        world = ScalerState(config(CDI.model_copy(update=limits)))
        world.node(NODE, gpus=3)
        world.runs("web", NODE, cpu_milli=1_000)
        assert chosen(choose(world, 150)).count == 1


def test_a_gpu_that_somebody_waits_for_stays() -> None:
    world = ScalerState()
    world.node(NODE, gpus=1)
    world.runs("web", NODE, cpu_milli=1_000)
    world.waits("later", gpus=1)
    assert choose(world, 150) is None


def test_a_node_without_idle_gpus_has_nothing_to_give() -> None:
    world = ScalerState()
    world.node(NODE, gpus=1)
    world.runs("train", NODE, 0)
    assert choose(world, 150) is None


def test_musters_autoscaler_says_who_holds_a_node_that_is_hardly_used() -> None:
    world = ScalerState()
    world.node(NODE, gpus=2)
    web = world.runs("web", NODE, cpu_milli=1_000, preemptible=False)
    assert list(world.policies.node_surplus.unneeded(world.at_second(59))) == []
    (signal,) = world.policies.node_surplus.unneeded(world.at_second(60))
    assert isinstance(signal, RemovalBlocked)
    assert (signal.node, signal.holders) == (NODE, (web,))
    assert signal.reason == "held by web (no GPU, not preemptible); no running job is ended for a scale-down"
    world.runs("train", NODE, 0)
    assert list(world.policies.node_surplus.unneeded(world.at_second(61))) == [], "half of its GPUs is used now"
