"""Wiring only: what the composer folds, which questions it answers, how it reaches fabrics."""

from collections.abc import Iterator

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.composer.core import answers
from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.composer.declaration import DECLARATION
from muster.composer.drivers import fabric_calls
from muster.core.settings import GroupSettings
from muster.fabric.bounds import PARALLEL_MAX
from muster.fabric.layout import machine_id, node_name
from muster.schemas.registry import StreamRole


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The composer of one cluster. What makes the calls is both the core's port and the sink that works it."""
    config, calls = config_of(settings), fabric_calls(settings)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: ComposerCore(calls, config),
            queries={
                "devices": answers.answer_devices,
                "requests": answers.answer_requests,
                "compose-check": answers.answer_compose_check,
                "detach-check": answers.answer_detach_check,
            },
            sink=lambda: calls,
        ),
    )


def config_of(settings: Settings) -> ComposerConfig:
    """The composer's part of the settings. Groups that are not composable are left out."""
    scaling = settings.scaling
    return ComposerConfig(
        fabrics=tuple(
            FabricConfig(
                name=fabric.name,
                driver=fabric.driver,
                limit=min(fabric.limit, PARALLEL_MAX[fabric.driver]),
                call_s=fabric.call_s,
            )
            for fabric in settings.fabrics
        ),
        groups=tuple(
            GroupConfig(
                name=group.name,
                fabric=group.fabric,
                gpu_models=group.gpu_models,
                gpus_max=group.gpus_max,
                machines=tuple(_machines(group)),
            )
            for group in scaling.groups
            if group.composable
        ),
        may_not_coexist=scaling.may_not_coexist,
        bounds=Bounds(**dict(settings.composer), scaler_withhold_s=scaling.withhold_s),
    )


def _machines(group: GroupSettings) -> Iterator[tuple[str, str]]:
    """Of a cluster that names its nodes by the layout; those of another tell their machines when they join."""
    for index in range(1, max(group.nodes, group.nodes_max) + 1):
        node = node_name(group.name, index)
        yield machine_id(node), node
