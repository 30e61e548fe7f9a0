"""Settings as the scaler's core takes them. Outside of the core, which knows no settings files."""

from collections.abc import Sequence

from muster.bus.settings import FabricSettings, GroupSettings, ScalingSettings
from muster.core.settings import ComposerSettings
from muster.scaler.core.groups import GpuModel, Mode, NodeGroup, ScalingConfig, ScalingConfigError


def config_of(
    scaling: ScalingSettings, fabrics: Sequence[FabricSettings] = (), composer: ComposerSettings | None = None
) -> ScalingConfig:
    """What the settings allow, checked. Raises ScalingConfigError, which names the field."""
    composer = composer or ComposerSettings()
    names = [group.name for group in scaling.groups]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ScalingConfigError("scaling.groups", f"two groups are named {', '.join(twice)}: give each its own name")
    return ScalingConfig(
        mode=Mode(scaling.mode),
        groups={group.name: _group(group) for group in scaling.groups},
        models={
            name: GpuModel(name, model.idle_w, model.busy_w, model.attach_s, model.detach_s)
            for name, model in scaling.models.items()
        },
        fabrics=frozenset(fabric.name for fabric in fabrics),
        may_not_coexist=tuple(frozenset(rule) for rule in scaling.may_not_coexist),
        gpu_idle_s=scaling.gpu_idle_s,
        node_unneeded_s=scaling.node_unneeded_s,
        delay_after_add_s=scaling.delay_after_add_s,
        delay_after_failure_s=scaling.delay_after_failure_s,
        node_provision_s_max=scaling.node_provision_s_max,
        withhold_s=scaling.withhold_s,
        attach_s_max=composer.attach_s_max,
        detach_s_max=composer.detach_s_max,
        visible_s_max=composer.visible_s_max,
    )


def _group(group: GroupSettings) -> NodeGroup:
    if group.nodes > group.nodes_max:
        raise ScalingConfigError(
            f"scaling.groups[{group.name}].nodes", f"{group.nodes} at the start are above nodes_max {group.nodes_max}"
        )
    return NodeGroup(**group.model_dump(exclude={"nodes", "kubelet_picks"}))
