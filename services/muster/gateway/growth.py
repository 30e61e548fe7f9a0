"""What the fleet could become: shapes of nodes that scaling may add, or fill with devices. Pure."""

from muster.bus.settings import ScalingSettings
from muster.gateway.accept import Shape


def shapes_to_come(scaling: ScalingSettings) -> tuple[Shape, ...]:
    """One shape per group and GPU model: of a composable group with the most GPUs that its nodes can have.

    Empty if nothing scales. Topology levels are left out: new nodes have those of the fleet that they join.
    """
    if scaling.mode == "off":
        return ()
    found: dict[Shape, None] = {}
    for group in scaling.groups:
        gpus = group.gpus_max if group.composable else group.gpus
        models = group.gpu_models if gpus else ("",)
        if max(group.nodes, group.nodes_max):
            found.update({Shape(model, gpus, group.cpu_milli, group.memory_mib): None for model in models})
    return tuple(found)
