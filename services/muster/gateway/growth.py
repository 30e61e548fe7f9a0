"""What the fleet could become: shapes of nodes that scaling may add, or fill with devices. Pure."""

from muster.core.settings import ScalingSettings
from muster.gateway.accept import Shape
from muster.schemas.queries import DryRunAnswer

SCALING_CURES = frozenset({"no-node", "model", "gpu", "cpu", "memory", "fragmented", "topology"})
"""Shortages, as the scheduler names them, that another GPU or node may end."""


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


def while_it_may_grow(answer: DryRunAnswer) -> DryRunAnswer:
    """The scheduler's answer for a fleet that may grow: what the nodes that are there can never hold may wait.

    The scheduler knows no node that is to come. That each replica fits one of those was checked before it was asked.
    """
    if not answer.refused or answer.reason not in SCALING_CURES:
        return answer
    cure = "It waits; scaling attaches GPUs or adds nodes if they can be had."
    return answer.model_copy(update={"refused": False, "field": "", "cure": cure})
