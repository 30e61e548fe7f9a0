"""Scaling in virtual time: node groups, what is in the pool of each fabric, and how long everything takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.groups import Groups
from muster.agent.core.groups import NodeGroup as SimulatedGroup
from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.composer.virtual import VirtualFabrics
from muster.core import Core
from muster.core.simulation_settings import FabricBehaviour
from muster.fabric.layout import device_uuids, machine_id, node_name, pool_device_uuid
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import PoolDevice
from muster.scaler.core.core import ScalerCore
from muster.scaler.core.groups import NodeGroup, ScalingConfig


@dataclass(frozen=True, slots=True)
class Scaled:
    """What one simulation has of it. cores: by writer. models: the fabrics, for reading."""

    groups: Groups
    cores: Mapping[str, Core]
    models: Mapping[str, FabricModel]

    def pool(self) -> dict[str, int]:
        """Devices that are free now, by model, over all fabrics."""
        free: dict[str, int] = {}
        for fabric in self.models.values():
            for (_, model), count in fabric.inventory().free.items():
                free[model] = free.get(model, 0) + count
        return free


@dataclass(frozen=True, slots=True)
class Scaling:
    """config: what the scaler may do. nodes: how many of each group are there at the start.

    pool: devices that are free at the start, by fabric and model. behaviour: of every fabric. visible_s: from when a
    device is attached until its node shows it. parallel: calls at a time to one fabric.
    """

    config: ScalingConfig
    nodes: Mapping[str, int] = field(default_factory=dict)
    pool: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    behaviour: FabricBehaviour = field(default_factory=FabricBehaviour)
    visible_s: float = 10.0
    parallel: int = 16

    def begin(self) -> Scaled:
        """Everything as it is at the start, new each time."""
        models = self.models()
        cores: dict[str, Core] = {"scaler": ScalerCore(self.config)}
        if models:
            cores["composer"] = ComposerCore(VirtualFabrics(models), self._composer())
        return Scaled(self.groups(), cores, models)

    def groups(self) -> Groups:
        """The groups as the simulated cluster has them."""
        groups = {name: self._simulated(group) for name, group in self.config.groups.items()}
        return Groups(groups, visible_s=self.visible_s)

    def models(self) -> dict[str, FabricModel]:
        """Every fabric as it is at the start: new ones each time."""
        return {fabric: self._model(fabric) for fabric in sorted(self.config.fabrics)}

    def _composer(self) -> ComposerConfig:
        groups = (group for group in self.config.groups.values() if group.composable)
        return ComposerConfig(
            fabrics=tuple(FabricConfig(name, limit=self.parallel) for name in sorted(self.config.fabrics)),
            groups=tuple(
                GroupConfig(group.name, group.fabric, group.gpu_models, gpus_max=group.gpus_max) for group in groups
            ),
            may_not_coexist=tuple(tuple(sorted(rule)) for rule in self.config.may_not_coexist),
            bounds=Bounds(scaler_withhold_s=self.config.withhold_s),
        )

    def _simulated(self, group: NodeGroup) -> SimulatedGroup:
        return SimulatedGroup(
            group.name,
            composable=group.composable,
            nodes=self.nodes.get(group.name, 0),
            gpus=group.gpus,
            gpu_model=group.gpu_models[0] if group.gpu_models else "",
            cpu_milli=group.cpu_milli,
            memory_mib=group.memory_mib,
            rack_size=group.rack_size,
            provision_s=group.provision_s,
            deprovision_s=group.deprovision_s,
        )

    def _model(self, fabric: str) -> FabricModel:
        groups = self.config.composable_of(fabric)
        pool = self.pool.get(fabric, {})
        return FabricModel(
            name=fabric,
            behaviour=self.behaviour,
            devices=[
                PoolDevice(pool_device_uuid(fabric, model, index), model)
                for model, count in pool.items()
                for index in range(count)
            ],
            machines=[machine_id(node) for group in groups for node in _nodes(group, group.nodes_max)],
            attached={
                machine_id(node): [PoolDevice(uuid, group.gpu_models[0]) for uuid in device_uuids(node, group.gpus)]
                for group in groups
                for node in _nodes(group, self.nodes.get(group.name, 0))
            },
        )


def _nodes(group: NodeGroup, count: int) -> list[str]:
    return [node_name(group.name, index) for index in range(1, count + 1)]
