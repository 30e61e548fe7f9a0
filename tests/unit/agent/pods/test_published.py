"""What a node's description says of devices that its driver publishes."""

from dataclasses import dataclass, field

from muster.agent.core.kubernetes.claims import ClaimView, Holders
from muster.agent.core.kubernetes.published import ModelsByClaims, PublishedDevices
from muster.agent.core.kubernetes.slices import Device, DeviceIndex, SliceView
from muster.agent.core.kubernetes.views import NodeView, Requests
from muster.schemas.facts.node import NodeJoined
from unit.agent.pods.allocating import DRIVER, NODE, place


@dataclass
class Told:
    """Nodes as the log has them."""

    told: dict[str, NodeJoined] = field(default_factory=dict)
    told_changes: int = 0

    def put(self, name: str, model: str, *, picks: bool, gpus: int = 1) -> None:
        uuids = tuple(f"{name}-{number}" for number in range(gpus))
        said = {"gpu_model": model, "gpu_uuids": uuids, "kubelet_picks": picks}
        self.told[name] = NodeJoined.model_validate({"cpu_milli": 1, "memory_mib": 1, **said})
        self.told_changes += 1


VIEW = NodeView(NODE, "uid", Requests(124_000, 1000), capacity_cpu_milli=128_000, ready=True)


def published(*numbers: int, reserved: frozenset[int] = frozenset(), generation: int = 1) -> PublishedDevices:
    devices = tuple(Device(place(at), f"GPU-{at}", "H100", "gpu", at // 2, str(at)) for at in numbers)
    index = DeviceIndex(DRIVER)
    index.put(SliceView("one", DRIVER, NODE, generation, 1, NODE, devices))
    return PublishedDevices(index, Holders(), reserved=reserved)


def test_a_node_of_a_device_plugin_is_none_of_ours() -> None:
    assert published(0).of_node(NodeView("other", "uid"), cpu_milli=1000) is None


def test_devices_are_described_with_their_sockets() -> None:
    said = published(0, 1, 2, 3, reserved=frozenset({0, 64})).of_node(VIEW, cpu_milli=126_000)
    assert said is not None
    assert (said.gpu_uuids, said.gpu_model) == (("GPU-0", "GPU-1", "GPU-2", "GPU-3"), "H100")
    assert said.device_domains[0] == ("socket", (0, 0, 1, 1))
    assert said.socket_cpu_milli == (62_000, 64_000)


def test_devices_keep_the_places_that_the_log_knows() -> None:
    devices = published(0, 2)
    devices.told = {NODE: NodeJoined(cpu_milli=1, memory_mib=1, gpu_uuids=("GPU-0", "GPU-1", "GPU-2"))}
    said = devices.of_node(VIEW, cpu_milli=1)
    assert said is not None
    assert (said.gpu_uuids[2], said.absent) == ("GPU-2", (1,))


def test_what_others_hold_is_not_there_for_us() -> None:
    devices = published(0, 1)
    devices.holders.put(ClaimView("default", "theirs", "u", places=(place(1),)))
    devices.holders.put(ClaimView("jobs", "ours", "v", job="job", places=(place(0),)))
    said = devices.of_node(VIEW, cpu_milli=1)
    assert said is not None
    assert said.gpu_uuids == ("GPU-0",)


def test_a_pool_that_is_being_replaced_stands_as_it_was() -> None:
    devices = published(0, 1)
    devices.told = {NODE: NodeJoined(cpu_milli=1, memory_mib=1, gpu_model="H100", gpu_uuids=("GPU-0", "GPU-1"))}
    devices.index.put(SliceView("two", DRIVER, NODE, 2, 2, NODE, ()))
    said = devices.of_node(VIEW, cpu_milli=1)
    assert said is not None
    assert said.gpu_uuids == ("GPU-0", "GPU-1")


def test_cpus_that_do_not_divide_are_not_told() -> None:
    devices = published(0, 2)
    odd = NodeView(NODE, "uid", capacity_cpu_milli=127_000)
    said = devices.of_node(odd, cpu_milli=1)
    assert said is not None
    assert said.socket_cpu_milli == ()
    assert devices.misfits == {NODE}


def told(*uuids: str) -> dict[str, NodeJoined]:
    return {NODE: NodeJoined(cpu_milli=1, memory_mib=1, gpu_model="H100", gpu_uuids=uuids)}


def held(devices: PublishedDevices, *numbers: int) -> None:
    """A job of Muster's holds these."""
    claim = ClaimView("jobs", "ours", "v", job="job", node=NODE, places=tuple(place(number) for number in numbers))
    devices.holders.put(claim)


def test_a_driver_that_is_silent_leaves_nothing_to_a_device_plugin_while_devices_are_held() -> None:
    devices = published(0, 1)
    devices.told = told("GPU-0", "GPU-1")
    held(devices, 1)
    devices.index.remove("one")
    said = devices.of_node(VIEW, cpu_milli=1)
    assert said is not None
    assert (said.gpu_uuids, said.absent) == (("GPU-0", "GPU-1"), (0, 1))
    devices.holders.clear()
    assert devices.of_node(VIEW, cpu_milli=1) is None


def test_devices_come_back_to_their_places_after_a_silence() -> None:
    devices = published(0, 1, 2)
    devices.of_node(VIEW, cpu_milli=1)
    devices.index.put(SliceView("one", DRIVER, NODE, 2, 1, NODE, ()))
    empty = devices.of_node(VIEW, cpu_milli=1)
    assert empty is not None
    assert empty.gpu_uuids == ()
    late = tuple(Device(place(at), f"GPU-{at}", "H100", "gpu", 0, "") for at in (2, 1))
    devices.index.put(SliceView("one", DRIVER, NODE, 3, 1, NODE, late))
    said = devices.of_node(VIEW, cpu_milli=1)
    assert said is not None
    assert (said.gpu_uuids[1:], said.absent) == (("GPU-1", "GPU-2"), (0,))


def test_a_device_that_is_to_be_left_alone_stays_in_sight_while_it_is_held() -> None:
    devices = published(0)
    ill = Device(place(1), "GPU-1", "H100", "gpu", 0, "", tainted=True)
    devices.index.put(SliceView("two", DRIVER, NODE, 1, 1, NODE, (ill,)))
    before = devices.of_node(VIEW, cpu_milli=1)
    held(devices, 1)
    during = devices.of_node(VIEW, cpu_milli=1)
    assert before is not None
    assert during is not None
    assert (before.gpu_uuids, during.gpu_uuids) == (("GPU-0",), ("GPU-0", "GPU-1"))
    assert devices.follows_claims(NODE)


def test_models_that_are_had_by_claims_are_named_as_soon_as_some_node_counts_its_gpus() -> None:
    nodes = Told()
    models = ModelsByClaims(nodes)
    nodes.put("a", "H200", picks=False)
    nodes.put("b", "H100", picks=False)
    nodes.put("cpu-only", "", picks=True, gpus=0)
    assert models() == (), "every GPU is had by a claim"
    nodes.put("c", "A100", picks=True)
    assert models() == ("H100", "H200")
    nodes.put("d", "H100", picks=True)
    assert models() == ("H100", "H200"), "nodes of that model can serve"
    nodes.put("a", "H200", picks=False, gpus=0)
    nodes.put("b", "H100", picks=True)
    assert models() == (), "nobody has claims"
