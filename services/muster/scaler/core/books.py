"""The fleet's books as the scaler folds them: in the same fleet stands, between decisions, what is on its way."""

from collections.abc import Iterable, Mapping

from muster.books.fleet_books import FleetBooks
from muster.books.node_records import NODE
from muster.scaler.core.coming import Coming
from muster.schemas.facts.node import NodeJoined


class ScalerBooks(FleetBooks):
    """changed: nodes of which something was folded since somebody took note. of_group: nodes by node group.

    models: of the GPUs of each node that is part of the cluster. freed: grows whenever something became usable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coming = Coming(self.fleet)
        self.changed: dict[str, None] = {}
        self.of_group: dict[str, dict[str, None]] = {}
        self.models: dict[str, str] = {}
        self.freed = 0
        self._group: dict[str, str] = {}

    def group_of(self, name: str) -> str:
        """The node group of a node that is part of the cluster; "" if it has none."""
        return self._group.get(name, "")

    def nodes_in(self, group: str) -> Mapping[str, None]:
        """Nodes of a group that are part of the cluster, in the order in which they came."""
        return self.of_group.get(group, {})

    def describe(self, name: str) -> NodeJoined | None:
        """What a node is, while it is part of the cluster."""
        record = self.nodes.get(name)
        return record.description if record is not None else None

    def touch(self, names: Iterable[str]) -> None:
        """Something about these nodes is about to change: what was only thought of goes first."""
        for name in names:
            self.coming.lift(name)
            self.changed[name] = None

    def node_of(self, kind: str, name: str) -> str:
        """The node that a fact of a node or device is about; "" if the device is nowhere."""
        if kind == NODE:
            return name
        place = self.place_of(name)
        return place[0] if place is not None else ""

    def note_group(self, name: str) -> bool:
        """The node came, went, or is another one. Returns whether its GPUs are of another model."""
        description = self.describe(name)
        before = self._group.pop(name, "")
        group = description.group if description is not None else ""
        if before != group and before:
            self.of_group[before].pop(name, None)
        if group:
            self._group[name] = group
            self.of_group.setdefault(group, {})[name] = None
        model = self.models.pop(name, "")
        if description is not None and description.gpu_model:
            self.models[name] = description.gpu_model
        return self.models.get(name, "") != model

    def _make_way(self, name: str) -> None:
        self.touch((name,))

    def _touched(self, name: str) -> None:
        self.touch((name,))

    def _before_reshape(self, name: str) -> None:
        self.touch((name,))
