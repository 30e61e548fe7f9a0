"""Which nodes are of which node group, and which model their GPUs are."""

from collections.abc import Mapping

from muster.cluster.node_records import NodeTable


class NodeGroups:
    """The nodes that are part of the cluster, by node group."""

    def __init__(self, nodes: NodeTable) -> None:
        self.models: dict[str, str] = {}
        """Model of the GPUs of each node that has any."""
        self._nodes = nodes
        self._members: dict[str, dict[str, None]] = {}
        self._group: dict[str, str] = {}

    def group_of(self, name: str) -> str:
        """Return the group of a node; "" if it has none."""
        return self._group.get(name, "")

    def nodes_in(self, group: str) -> Mapping[str, None]:
        """Return the nodes of a group, in the order in which they came."""
        return self._members.get(group, {})

    def note(self, name: str) -> bool:
        """Follow a node that came, went, or is another one; return whether its GPUs are of another model."""
        description = self._nodes.description(name)
        before = self._group.pop(name, "")
        group = description.group if description is not None else ""
        if before != group and before:
            self._members[before].pop(name, None)
        if group:
            self._group[name] = group
            self._members.setdefault(group, {})[name] = None
        model = self.models.pop(name, "")
        if description is not None and description.gpu_model:
            self.models[name] = description.gpu_model
        return self.models.get(name, "") != model
