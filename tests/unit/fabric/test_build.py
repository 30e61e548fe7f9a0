"""What stands where in a simulated fabric at the very start."""

import pytest

from kit.fabrics import GROUPS, MODEL, NAME, OTHER_MODEL, fabric, machine
from muster.fabric.layout import device_uuids, node_name, pool_device_uuid
from muster.fabric.simulator.build import build_model, machines_of


def test_the_first_nodes_of_a_group_have_the_devices_that_they_were_built_with() -> None:
    east = build_model(fabric(), GROUPS)
    standing = [[device.device_uuid for device in east.on_machine(machine(index))] for index in (1, 2, 3, 4)]
    assert standing == [list(device_uuids(node_name("cdi", 1), 1)), list(device_uuids(node_name("cdi", 2), 1)), [], []]


def test_the_pool_holds_what_settings_say_in_order() -> None:
    east = build_model(fabric(), GROUPS)
    assert east.inventory().free == {("gpu", MODEL): 4, ("gpu", OTHER_MODEL): 2, ("cxlmemory", "CXL-128G"): 1}
    uuids = [device.device_uuid for device in east.free_devices() if device.model == MODEL]
    assert uuids == [pool_device_uuid(NAME, MODEL, index) for index in range(4)]
    [memory] = [device for device in east.free_devices() if device.type == "cxlmemory"]
    assert memory.memory_mib == 131_072


def test_only_composable_groups_of_this_fabric_are_reached() -> None:
    others = (
        GROUPS[0].model_copy(update={"name": "far", "fabric": "west"}),
        GROUPS[0].model_copy(update={"name": "plain", "composable": False}),
    )
    assert [one.name for one in machines_of(fabric(), (*GROUPS, *others)).values()] == [
        node_name("cdi", index) for index in (1, 2, 3, 4)
    ]


def test_a_fabric_that_is_not_simulated_is_named() -> None:
    with pytest.raises(ValueError, match="east: `simulated`"):
        build_model(fabric().model_copy(update={"simulated": None}), GROUPS)


def test_a_group_with_gpus_must_say_which() -> None:
    with pytest.raises(ValueError, match="cdi: gpus is 1, so gpu_models"):
        build_model(fabric(), [GROUPS[0].model_copy(update={"gpu_models": ()})])
