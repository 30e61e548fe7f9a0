"""The available sources: nodes of groups, unreserved GPUs of pools, and nodes that can get GPUs."""

from typing import NamedTuple

from muster.scaler.core.choices import Choices, OpenChoice
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.fabrics import Attachments, Pool
from muster.schemas.devices import GPU


class Source(NamedTuple):
    """The fabric and GPU model from which devices come."""

    fabric: str
    model: str


class Capacity:
    """Counts what is available, and caches the counts until a fact is folded."""

    def __init__(self, cluster: Cluster, choices: Choices, *, pool: Pool, attachments: Attachments) -> None:
        self._config = cluster.config
        self._nodes = cluster.nodes
        self._fleet = cluster.fleet
        self._node_groups = cluster.node_groups
        self._pool = pool
        self._attachments = attachments
        self._choices = choices
        self._kept: dict[Source, int] | None = None
        self._able: dict[Source, dict[str, int]] = {}

    def members(self, group: str) -> dict[str, None]:
        """Return the nodes that the group has or will have, including nodes whose removal is not confirmed."""
        return {**self._node_groups.nodes_in(group), **dict.fromkeys(self.nodes_coming(group))}

    def nodes_coming(self, group: str) -> list[str]:
        """Return the nodes of a group that were chosen and have not joined."""
        return [
            name
            for name, choice in self._choices.adds.items()
            if choice.chosen.group == group and self._nodes.description(name) is None
        ]

    def pool_left(self, fabric: str, model: str) -> int:
        """Return the GPUs of a pool that are not reserved for attachments or choices."""
        if self._kept is None:
            self._kept = self._kept_now()
        kept = self._attachments.kept.get((fabric, GPU, model), 0) + self._kept.get(Source(fabric, model), 0)
        return max(0, self._pool.free(fabric, model) - kept)

    def able(self, source: Source) -> dict[str, int]:
        """Return the nodes that can get GPUs of a source, and how many each. Do not modify the result."""
        found = self._able.get(source)
        if found is None:
            found = self._able[source] = self._able_now(source)
        return found

    def forget(self) -> None:
        """Drop the caches, after a fact was folded or a simulated choice was undone."""
        self._kept = None
        self._able.clear()

    def count_chosen(self, choice: OpenChoice) -> None:
        """Count a simulated choice: the devices reserved for it, and the nodes that it changes."""
        if self._kept is not None:
            self._keep(choice, self._kept)
        for part in choice.chosen.parts:
            for source, found in self._able.items():
                most = self._able_on(source, part.node)
                if most:
                    found[part.node] = most
                else:
                    found.pop(part.node, None)

    def _kept_now(self) -> dict[Source, int]:
        """Return the devices in pools that are reserved for parts of choices."""
        kept = dict[Source, int]()
        for choice in self._choices.open.values():
            self._keep(choice, kept)
        return kept

    def _keep(self, choice: OpenChoice, kept: dict[Source, int]) -> None:
        """Add the devices reserved for one choice: its parts, less devices that still have to come back for them."""
        if not choice.serves:
            return
        begun, mine = self._attachments.of_request.get(choice.id), dict[Source, int]()
        for part in choice.chosen.parts:
            left = self._attachments.part_left(choice.id, part.node, part.count) if begun else part.count
            key = Source(part.fabric, part.device_model)
            mine[key] = mine.get(key, 0) + left
        for device in choice.chosen.devices:
            attachment = self._attachments.of_device.get(device)
            if attachment is not None and attachment.requested.request != choice.id:
                key = Source(attachment.requested.fabric, attachment.requested.model)
                mine[key] = mine.get(key, 0) - 1
        for key, left in mine.items():
            kept[key] = kept.get(key, 0) + max(0, left)

    def _able_now(self, source: Source) -> dict[str, int]:
        """Return usable nodes of the groups that this source serves, and how many more of its GPUs each can have."""
        found = dict[str, int]()
        nodes, config = self._fleet.ledger.nodes, self._config
        model, is_ruled = source.model, any(source.model in rule for rule in config.settings.may_not_coexist)
        for group in config.composable_of(source.fabric):
            if model not in group.gpu_models:
                continue
            gpus_max = group.gpus_max
            for name in self._node_groups.nodes_in(group.name):
                node = nodes.get(name)
                if node is None or node.state is None:
                    continue
                shape = node.shape
                standing = shape.gpu_count - len(shape.absent)
                if standing >= gpus_max or (standing and shape.gpu_model != model) or shape.device_domains:
                    continue
                if not is_ruled or config.takes(group, model, present=self._others(name)):
                    found[name] = gpus_max - standing
        return found

    def able_coming(self, source: Source) -> dict[str, int]:
        """Return nodes that were chosen and have not joined, and how many more GPUs of a source each can get."""
        found = dict[str, int]()
        nodes = self._fleet.ledger.nodes
        for group in self._config.composable_of(source.fabric):
            if source.model not in group.gpu_models:
                continue
            for name in self.nodes_coming(group.name):
                node = nodes.get(name)
                standing = node.shape.device_count if node is not None else 0
                if node is None or node.state is None or standing >= group.gpus_max:
                    continue
                if not standing or node.shape.gpu_model == source.model:
                    found[name] = group.gpus_max - standing
        return found

    def _able_on(self, source: Source, name: str) -> int:
        """Return how many more GPUs of a source one node can get."""
        group, node = self._config.groups.get(self._node_groups.group_of(name)), self._fleet.ledger.nodes.get(name)
        if group is None or group.fabric != source.fabric or source.model not in group.gpu_models:
            return 0
        if node is None or node.state is None or node.shape.device_domains:
            return 0
        standing = node.shape.device_count
        if standing and node.shape.gpu_model != source.model:
            return 0
        if not self._config.takes(group, source.model, present=self._others(name)):
            return 0
        return max(0, group.gpus_max - standing)

    def _others(self, name: str) -> list[str]:
        """Return the models of devices of other types that are on a node or being attached to it."""
        return [one.requested.model for one in self._attachments.on.get(name, {}).values() if one.requested.type != GPU]
