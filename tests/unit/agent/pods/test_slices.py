"""Devices that drivers publish become places of a node's description, and keep them."""

from hypothesis import given
from hypothesis import strategies as st

from muster.agent.core.kubernetes.slices import Device, DeviceIndex, Place, SliceView, describe, project_slice
from muster_tools.local_kubernetes.nodes import Devices, NodeShape, device_uuid, resource_slice

DRIVER = "gpu.nvidia.com"


def device(number: int, **more: object) -> Device:
    fields: dict[str, object] = {"uuid": f"GPU-{number}", "model": "H100", "kind": "gpu", "numa": 0, "pcie_root": "a"}
    return Device(Place(DRIVER, "node", f"gpu-{number}"), **{**fields, **more})  # type: ignore[arg-type]


def a_slice(name: str, *devices: Device, generation: int = 1, slices: int = 1, driver: str = DRIVER) -> SliceView:
    return SliceView(name, driver, "node", generation, slices, "node", devices)


def index(*views: SliceView) -> DeviceIndex:
    made = DeviceIndex(DRIVER)
    for view in views:
        made.put(view)
    return made


def uuids(made: DeviceIndex) -> list[str] | None:
    found = made.devices("node")
    return None if found is None else [one.uuid for one in found]


def test_a_slice_as_the_driver_writes_it_is_read() -> None:
    view = project_slice(dict(resource_slice(3, NodeShape(devices=Devices.DRA))))
    assert (view.node, view.driver, len(view.devices)) == ("gpu-0003", DRIVER, 8)
    last = view.devices[7]
    assert last.place == Place(DRIVER, "gpu-0003", "gpu-7")
    assert (last.uuid, last.model, last.numa) == (device_uuid(3, 7), "NVIDIA-H100-80GB-HBM3", 1)
    assert (last.pcie_root, last.memory_mib) == ("pci0000:60", 80 * 1024)


def test_attributes_may_name_their_driver() -> None:
    raw = {"name": "gpu-0", "attributes": {f"{DRIVER}/uuid": {"string": "GPU-9"}}}
    view = project_slice({"spec": {"driver": DRIVER, "nodeName": "n", "pool": {"name": "n"}, "devices": [raw]}})
    assert view.devices[0].uuid == "GPU-9"


def test_the_newest_generation_counts_once_it_is_complete() -> None:
    old = a_slice("one", device(0), device(1))
    made = index(old, a_slice("two", device(1), generation=2, slices=2))
    assert uuids(made) is None
    made.put(a_slice("three", device(2), generation=2, slices=2))
    assert uuids(made) == ["GPU-1", "GPU-2"]


def test_other_drivers_and_parts_of_gpus_are_passed_over() -> None:
    made = index(a_slice("nics", device(5), driver="nic.example.com"), a_slice("one", device(0), device(1, kind="mig")))
    assert uuids(made) == ["GPU-0"]


def test_an_empty_slice_says_that_there_is_no_device() -> None:
    assert uuids(index(a_slice("one"))) == []
    assert index(a_slice("one")).publishes("node")
    assert not index().publishes("node")


def test_a_slice_that_goes_takes_its_devices_along() -> None:
    made = index(a_slice("one", device(0)))
    assert made.remove("one") == {"node"}
    assert not made.publishes("node")


def test_numbers_count_as_numbers() -> None:
    made = index(a_slice("one", device(10), device(2)))
    assert uuids(made) == ["GPU-2", "GPU-10"]


def test_a_device_keeps_its_place_when_another_goes_and_comes_back() -> None:
    first = describe([device(0), device(1), device(2)], models={})
    without = describe([device(0), device(2)], models={}, before=first.gpu_uuids)
    assert (without.gpu_uuids[2], without.absent) == ("GPU-2", (1,))
    again = describe([device(0), device(2), device(7)], models={}, before=without.gpu_uuids)
    assert (again.gpu_uuids, again.absent) == (("GPU-0", "GPU-7", "GPU-2"), ())


def test_holes_at_the_end_are_cut_off() -> None:
    said = describe([device(0)], models={}, before=("GPU-0", "GPU-1"))
    assert (said.gpu_uuids, said.absent) == (("GPU-0",), ())


def test_a_tainted_device_is_not_there_unless_somebody_has_it() -> None:
    ill = device(1, tainted=True)
    assert describe([device(0), ill], models={}).gpu_uuids == ("GPU-0",)
    assert describe([device(0), ill], models={}, held=frozenset({"GPU-1"})).gpu_uuids == ("GPU-0", "GPU-1")


def test_a_node_shows_the_model_that_it_has_most_of() -> None:
    said = describe([device(0, model="A100"), device(1), device(2)], models={"H100": "h100-80gb"})
    assert (said.gpu_model, said.gpu_uuids, said.left_out) == ("h100-80gb", ("GPU-1", "GPU-2"), ("GPU-0",))


def test_sockets_and_switches_are_domains() -> None:
    said = describe(
        [device(0), device(1, pcie_root="b"), device(2, numa=1, pcie_root="c"), device(3, numa=1, pcie_root="c")],
        models={},
    )
    assert said.device_domains == (("socket", (0, 0, 1, 1)), ("pcie", (0, 1, 2, 2)))


def test_topology_that_one_device_does_not_tell_is_not_told() -> None:
    assert describe([device(0), device(1, numa=-1, pcie_root="")], models={}).device_domains == ()


@given(st.lists(st.sets(st.integers(0, 9), max_size=8), min_size=1, max_size=6))
def test_places_are_never_shared_nor_changed(rounds: list[set[int]]) -> None:
    before: tuple[str, ...] = ()
    absent: tuple[int, ...] = ()
    for numbers in rounds:
        said = describe([device(number) for number in sorted(numbers)], models={}, before=before)
        there = {uuid: place for place, uuid in enumerate(said.gpu_uuids) if place not in said.absent}
        assert set(there) == {f"GPU-{number}" for number in numbers}
        was = {uuid: place for place, uuid in enumerate(before) if place not in absent}
        assert all(there[uuid] == place for uuid, place in was.items() if uuid in there)
        assert all(len(numbers) == len(said.gpu_uuids) for _, numbers in said.device_domains)
        before, absent = said.gpu_uuids, said.absent
