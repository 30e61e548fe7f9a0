"""Scaling in virtual time: node groups, what is in the pool of each fabric, and how long everything takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.fleet import Groups
from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.composer.virtual import VirtualFabrics
from muster.core import Core
from muster.core.settings import FabricBehaviour, GroupSettings
from muster.fabric.layout import device_uuids, machine_id, node_name, pool_device_uuid
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import PoolDevice
from muster.scaler.core.core import ScalerCore
from muster.scaler.core.groups import ScalingConfig


@dataclass(frozen=True, slots=True)
class Scaled:
    """Scaling parts of one simulation. cores: by writer. models: the fabrics, read-only."""

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
    """config: the scaler's settings. pool: devices that are free at the start, by fabric and model.

    behaviour: of every fabric. parallel: concurrent calls to one fabric.
    """

    config: ScalingConfig
    pool: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    behaviour: FabricBehaviour = field(default_factory=FabricBehaviour)
    parallel: int = 16

    def begin(self) -> Scaled:
        """Return a new set of the initial objects."""
        models = self.models()
        cores: dict[str, Core] = {"scaler": ScalerCore(self.config)}
        if models:
            cores["composer"] = ComposerCore(VirtualFabrics(models), self._composer())
        return Scaled(self.groups(), cores, models)

    def groups(self) -> Groups:
        """Return the groups as the simulated cluster has them."""
        return Groups(self.config.groups, visible_s=self.config.settings.visible_s)

    def models(self) -> dict[str, FabricModel]:
        """Return every fabric in its initial state: new objects in each call."""
        return {fabric: self._model(fabric) for fabric in sorted(self.config.fabrics)}

    def _composer(self) -> ComposerConfig:
        groups = (group for group in self.config.groups.values() if group.composable)
        return ComposerConfig(
            fabrics=tuple(FabricConfig(name, limit=self.parallel) for name in sorted(self.config.fabrics)),
            groups=tuple(
                GroupConfig(group.name, group.fabric, group.gpu_models, gpus_max=group.gpus_max) for group in groups
            ),
            may_not_coexist=self.config.settings.may_not_coexist,
            bounds=Bounds(scaler_withhold_s=self.config.settings.withhold_s),
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
                for node in _nodes(group, group.nodes)
            },
        )


def _nodes(group: GroupSettings, count: int) -> list[str]:
    return [node_name(group.name, index) for index in range(1, count + 1)]
