"""Nodes that do not exist yet: how many of a group a gang needs, whether they are enough, what a chosen one will be.

Nodes of the shown spec are added to the fleet for a moment, and the placement engine is asked for the gang.
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
    """Nodes of the configured groups in thought. The fleet is left as it was."""

    cluster: Cluster
    capacity: Capacity

    def are_coming(self) -> bool:
        """Whether composable nodes were chosen and have not joined."""
        return any(
            group.composable and self.capacity.nodes_coming(name) for name, group in self.cluster.config.groups.items()
        )

    def members(self, group: str) -> int:
        """Return how many nodes the group has or will have."""
        return len(self.capacity.members(group))

    def spec_text(self, group: GroupSettings) -> str:
        """Return how the group shows its nodes, for reasons."""
        return spec_text(group, self.cluster.actual_node(group.name))

    def shape_of(self, choice: OpenChoice) -> NodeShape:
        """Return the node that a choice adds: of a composable group with the GPUs that are kept for it."""
        chosen = choice.chosen
        group = self.cluster.config.groups.get(chosen.group)
        if group is None:  # not configured any more
            return NodeShape(chosen.node, 0, 0, 0, "")
        if not group.composable:
            return self._shape(group, chosen.node)
        domains = self.cluster.expected_domains(group, chosen.node)
        parts = [part for part in chosen.parts if part.node == chosen.node]
        model, count = parts[0].device_model if parts else "", sum(part.count for part in parts)
        return NodeShape(chosen.node, group.cpu_milli, group.memory_mib, count, model, domains)

    # --- how many --------------------------------------------------------------------------------------------

    def needed(self, group: GroupSettings, gang: GangRequest) -> tuple[int, NodeShape | None]:
        """Return how many nodes of the shown spec make the gang fit, and that spec; (0, None) if none does.

        Of a composable group's models, the first that will do.
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
        """Return the least number of such nodes that will do, by doubling and halving; 0 if none does."""
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
        """The next `most` nodes of a group, each where it would stand; beyond its limit too, to say what is lacking."""
        known = self.cluster.fleet.ledger.nodes
        endless = group.model_copy(update={"nodes_max": len(known) + group.nodes_max + TRIAL_NODES_MAX})
        for name in free_node_names(endless, known, most):
            yield replace(spec, name=name, domains=self.cluster.expected_domains(group, name))

    # --- whether they are enough -----------------------------------------------------------------------------

    def enough(self, waiting: Waiting, group: GroupSettings, count: int) -> Option | Lack:
        """Return up to `count` nodes of the group for this gang, or why they do not help.

        A node of a composable group comes without GPUs: the fixed spec must fit, and the pool must have those that the
        gang would then hold on it, which are kept until they are attached.
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
            return Lack("pool", f"{words}; the pool of {group.fabric} has {left} that are kept for nobody")
        return Option(
            parts=parts,
            nodes=nodes,
            group=group.name,
            places=places_of(holds),
            watts=added_watts(self.cluster.config, group, len(nodes), parts),
            ready_s=added_s(self.cluster.config, group, parts),
        )


def _models(group: GroupSettings, waiting: Waiting) -> list[str]:
    """Models that the nodes may get, best first; of an ordinary group, which has no choice, any one."""
    if not group.composable:
        return [""]
    shapes = [one.shape for one in waiting.ask.groups if one.shape.holds_devices]
    wished = [model for shape in shapes for model in shape.gpu_models if model in group.gpu_models]
    models = dict.fromkeys([*wished, *group.gpu_models])
    return [model for model in models if not shapes or any(allows(shape, model) for shape in shapes)]


class _Stand:
    """Lets so many virtual nodes stand in the fleet, those of them that do not already."""

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
    """Whether one replica of this group could stand on such a node: else more of them cannot help it."""
    shape = gang.groups[index].shape
    if spec.cpu_milli < shape.cpu_milli or spec.memory_mib < shape.memory_mib or spec.gpu_count < shape.gpus:
        return False
    needs_gpu = shape.holds_devices
    return allows(shape, spec.gpu_model) and (spec.gpu_count > 0 or not needs_gpu)
