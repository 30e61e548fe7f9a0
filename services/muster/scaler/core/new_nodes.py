"""Nodes that do not exist yet: how many a gang needs, whether they suffice, and what a chosen one will be.

Virtual nodes of the shown spec are added to the fleet temporarily, and the placement engine places the gang.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from muster.core.settings import GroupSettings
from muster.placement import Fleet, GangRequest, Hold, NodeShape
from muster.placement.state import allows
from muster.scaler.core.capacity import Capacity
from muster.scaler.core.choices import OpenChoice
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.groups import free_node_names, shown_spec, spec_text
from muster.scaler.core.jobs import Waiting
from muster.scaler.core.limits import TRIAL_NODES_MAX
from muster.scaler.core.options import Lack, Option, added_s, added_watts, places_of
from muster.schemas.facts.scale import ScalePart


@dataclass(frozen=True, slots=True, eq=False)
class NewNodes:
    """Virtual nodes of the configured groups. The fleet is unchanged afterwards."""

    cluster: Cluster
    capacity: Capacity

    def are_coming(self) -> bool:
        """Return whether composable nodes were chosen and have not joined."""
        return any(
            group.composable and self.capacity.nodes_coming(name) for name, group in self.cluster.config.groups.items()
        )

    def members(self, group: str) -> int:
        """Return how many nodes the group has or will have."""
        return len(self.capacity.members(group))

    def spec_text(self, group: GroupSettings) -> str:
        """Return the name of the spec that the group shows, for reasons."""
        return spec_text(group, self.cluster.actual_node(group.name))

    def shape_of(self, choice: OpenChoice) -> NodeShape:
        """Return the shape of the node that a choice adds; for a composable group with the GPUs reserved for it."""
        chosen = choice.chosen
        group = self.cluster.config.groups.get(chosen.group)
        if group is None:  # the group is no longer configured
            return NodeShape(chosen.node, 0, 0, 0, "")
        if not group.composable:
            return self._shape(group, chosen.node)
        domains = self.cluster.expected_domains(group, chosen.node)
        parts = [part for part in chosen.parts if part.node == chosen.node]
        model, count = parts[0].device_model if parts else "", sum(part.count for part in parts)
        return NodeShape(chosen.node, group.cpu_milli, group.memory_mib, count, model, domains)

    # --- number of nodes -------------------------------------------------------------------------------------

    def needed(self, group: GroupSettings, gang: GangRequest) -> tuple[int, NodeShape | None]:
        """Return how many nodes of the shown spec make the gang fit, and that spec; (0, None) if no number does.

        For a composable group, take the first model that suffices.
        """
        most = min(TRIAL_NODES_MAX, sum(one.replicas_least for one in gang.groups))
        models = group.gpu_models if group.composable else ("",)
        for model in models:
            spec = shown_spec(group, self.cluster.actual_node(group.name), model=model)
            if not any(_fits_alone(spec, gang, index) for index in range(len(gang.groups))):
                continue
            count = self._least(group, gang, spec, most)
            if count:
                return count, spec
        return 0, None

    def _least(self, group: GroupSettings, gang: GangRequest, spec: NodeShape, most: int) -> int:
        """Return the minimum number of such nodes, by doubling and bisection; 0 if no number suffices."""
        fleet, low, high = self.cluster.fleet, 0, 1
        with _virtual(fleet, self._next_nodes(group, spec, most)) as stand:
            while True:
                stand(min(high, most))
                if fleet.find(gang) is not None:
                    break
                if high >= most:
                    return 0
                low, high = high, high * 2
            high = min(high, most)
            while high - low > 1:
                middle = (low + high) // 2
                stand(middle)
                low, high = (low, middle) if fleet.find(gang) is not None else (middle, high)
        return high

    def _next_nodes(self, group: GroupSettings, spec: NodeShape, most: int) -> Iterator[NodeShape]:
        """Yield the next `most` nodes of a group with their domains, also beyond its limit, to report what lacks."""
        known = self.cluster.fleet.ledger.nodes
        endless = group.model_copy(update={"nodes_max": len(known) + group.nodes_max + TRIAL_NODES_MAX})
        for name in free_node_names(endless, known, most):
            yield replace(spec, name=name, domains=self.cluster.expected_domains(group, name))

    # --- options ---------------------------------------------------------------------------------------------

    def enough(self, waiting: Waiting, group: GroupSettings, count: int) -> Option | Lack:
        """Return up to `count` nodes of the group for this gang, or why they do not help.

        A node of a composable group comes without GPUs: the fixed spec must fit, and the pool must have the GPUs that
        the gang would hold on it, which are reserved until they are attached.
        """
        members = self.capacity.members(group.name)
        names = free_node_names(group, members, count)
        if len(names) < count:
            words = f"{len(members)} of at most {group.nodes_max} nodes are there or on their way"
            return Lack("limits", f"group {group.name}: {words}, {count} more asked")
        lack = Lack("spec", f"the gang does not fit with {count} more nodes of group {group.name}")
        for model in _models(group, waiting):
            with _virtual(self.cluster.fleet, (self._shape(group, name, model) for name in names)) as stand:
                stand(len(names))
                holds = self.cluster.fleet.find(waiting.ask)
            if holds is None:
                continue
            option = self._option(group, names, model, holds)
            if isinstance(option, Option):
                return option
            lack = option
        return lack

    def _shape(self, group: GroupSettings, name: str, model: str = "") -> NodeShape:
        shape = shown_spec(group, self.cluster.actual_node(group.name), name=name, model=model)
        return replace(shape, domains=self.cluster.expected_domains(group, name))

    def _option(self, group: GroupSettings, names: Sequence[str], model: str, holds: Sequence[Hold]) -> Option | Lack:
        used, devices = set[str](), dict[str, set[int]]()
        for hold in holds:
            if hold.slot.node in names:
                used.add(hold.slot.node)
                devices.setdefault(hold.slot.node, set()).update(hold.slot.devices)
        nodes = tuple(name for name in names if name in used)
        if not nodes:
            return Lack("spec", f"the gang would not use the new nodes of group {group.name}")
        parts = tuple(
            ScalePart(node=name, count=len(devices[name]), fabric=group.fabric, device_model=model)
            for name in nodes
            if group.composable and devices[name]
        )
        asked, left = sum(part.count for part in parts), self.capacity.pool_left(group.fabric, model) if parts else 0
        if asked > left:
            words = f"group {group.name} would fit the gang on {len(nodes)} more, which need {asked} {model}"
            return Lack("pool", f"{words}; the pool of {group.fabric} has {left} that are not reserved")
        return Option(
            parts=parts,
            nodes=nodes,
            group=group.name,
            places=places_of(holds),
            watts=added_watts(self.cluster.config, group, len(nodes), parts),
            ready_s=added_s(self.cluster.config, group, parts),
        )


def _models(group: GroupSettings, waiting: Waiting) -> list[str]:
    """Return the models that the nodes may get, best first; an ordinary group has no choice of models."""
    if not group.composable:
        return [""]
    shapes = [one.shape for one in waiting.ask.groups if one.shape.holds_devices]
    wished = [model for shape in shapes for model in shape.gpu_models if model in group.gpu_models]
    models = dict.fromkeys([*wished, *group.gpu_models])
    return [model for model in models if not shapes or any(allows(shape, model) for shape in shapes)]


class _Stand:
    """Adds virtual nodes to the fleet, or removes them, until the given number is present."""

    def __init__(self, fleet: Fleet, shapes: Iterator[NodeShape]) -> None:
        self._fleet, self._shapes = fleet, shapes
        self._known: list[NodeShape] = []
        self._standing = 0

    def __call__(self, count: int) -> None:
        while self._standing > count:
            self._standing -= 1
            self._fleet.remove_node(self._known[self._standing].name)
        while self._standing < count:
            if self._standing == len(self._known):
                self._known.append(next(self._shapes))
            self._fleet.add_node(self._known[self._standing])
            self._standing += 1


@contextmanager
def _virtual(fleet: Fleet, shapes: Iterator[NodeShape]) -> Iterator[_Stand]:
    stand = _Stand(fleet, shapes)
    try:
        yield stand
    finally:
        stand(0)


def _fits_alone(spec: NodeShape, gang: GangRequest, index: int) -> bool:
    """Return whether one replica of this group fits on such a node: else more nodes cannot help."""
    shape = gang.groups[index].shape
    if spec.cpu_milli < shape.cpu_milli or spec.memory_mib < shape.memory_mib or spec.gpu_count < shape.gpus:
        return False
    needs_gpu = shape.holds_devices
    return allows(shape, spec.gpu_model) and (spec.gpu_count > 0 or not needs_gpu)
