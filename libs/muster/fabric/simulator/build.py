"""A fabric's model from its settings: its machines, their devices, and the pool."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.bus.settings import FabricSettings
from muster.core.settings import FabricBehaviour, GroupSettings, SimulatedFabricSettings
from muster.fabric.layout import device_uuids, machine_id, node_name, pool_device_uuid
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import PoolDevice
from muster.schemas.devices import CXL_MEMORY


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine under a node. index: from 1, as Fsas managers number them. gpus_min, gpus_max: that it may have."""

    id: str
    name: str
    group: str
    index: int
    gpus_min: int = 0
    gpus_max: int = 0


def machines_of(fabric: FabricSettings, groups: Sequence[GroupSettings]) -> dict[str, Machine]:
    """Return every machine in reach of the fabric, by id: all possible nodes of its composable groups."""
    named = [
        (node, group)
        for group in groups
        if group.composable and group.fabric == fabric.name
        for node in _nodes(group, max(group.nodes, group.nodes_max))
    ]
    return {
        machine_id(node): Machine(machine_id(node), node, group.name, index, group.gpus_min, group.gpus_max)
        for index, (node, group) in enumerate(named, start=1)
    }


def build_model(fabric: FabricSettings, groups: Sequence[GroupSettings]) -> FabricModel:
    """Return the initial model of a simulated fabric.

    Machines: all possible nodes of the fabric's composable groups. The first `nodes` of a group have `gpus` devices of
    its best model each. Raises ValueError if the fabric is not simulated or a group names no model.
    """
    if fabric.simulated is None:
        raise ValueError(f"fabric {fabric.name}: `simulated` is not set, so there is nothing to simulate")
    mine = [group for group in groups if group.composable and group.fabric == fabric.name]
    return FabricModel(
        name=fabric.name,
        behaviour=behaviour_of(fabric.simulated),
        devices=_pool(fabric.name, fabric.simulated),
        machines=machines_of(fabric, groups),
        attached={
            machine_id(node): devices
            for group in mine
            for node in _nodes(group, group.nodes)
            if (devices := _built_in(group, node))
        },
    )


def behaviour_of(simulated: SimulatedFabricSettings) -> FabricBehaviour:
    """Return how the fabric answers calls, without what there is in it."""
    return FabricBehaviour(**simulated.model_dump(include=set(FabricBehaviour.model_fields)))


def _nodes(group: GroupSettings, count: int) -> list[str]:
    return [node_name(group.name, index) for index in range(1, count + 1)]


def _built_in(group: GroupSettings, node: str) -> list[PoolDevice]:
    if group.gpus and not group.gpu_models:
        raise ValueError(f"scaling.groups: {group.name}: gpus is {group.gpus}, so gpu_models must name a model")
    return [PoolDevice(uuid, group.gpu_models[0]) for uuid in device_uuids(node, group.gpus)]


def _pool(fabric: str, simulated: SimulatedFabricSettings) -> list[PoolDevice]:
    gpus = [
        PoolDevice(pool_device_uuid(fabric, model, index), model)
        for model, count in simulated.pool.items()
        for index in range(count)
    ]
    memory = [
        PoolDevice(_memory_uuid(fabric, model, index), model, CXL_MEMORY, simulated.memory_mib)
        for model, count in simulated.memory_pool.items()
        for index in range(count)
    ]
    return gpus + memory


def _memory_uuid(fabric: str, model: str, index: int) -> str:
    return pool_device_uuid(fabric, model, index).replace("GPU-", "CXL-", 1)
