"""Nodes and devices that are on their way into or out of the simulated cluster, and when each is there, or gone."""

import heapq
from collections.abc import Iterator
from typing import Literal

from muster.agent.core.behaviour import Behaviour, fails_to_come
from muster.agent.core.cluster import AddNode, PlugDevice, RemoveNode, on_grid
from muster.agent.core.fleet import Groups
from muster.core import Instant, after

Change = AddNode | RemoveNode | PlugDevice
_Key = tuple[Literal["add", "remove", "show"], str]


class Changes:
    """What is under way: nodes that come, by choice, nodes that go, by name, devices that are to be shown, by uuid.

    devices: everything that the fabric says is attached, by node and uuid, shown or not.
    """

    def __init__(self, groups: Groups, behaviour: Behaviour) -> None:
        self.devices: dict[str, dict[str, PlugDevice]] = {}
        self._groups = groups
        self._behaviour = behaviour
        self._under_way: dict[_Key, tuple[Instant, Change]] = {}
        self._heap: list[tuple[Instant, _Key]] = []  # entries that are not under way any more are stale

    # --- what is asked -------------------------------------------------------------------------------------------

    def add(self, effect: AddNode) -> None:
        """A node is wanted."""
        group = self._groups.by_name.get(effect.group)
        provision_s = group.provision_s if group is not None else 0.0
        self._begin(("add", effect.scale), on_grid(after(effect.at, provision_s)), effect)

    def remove(self, effect: RemoveNode, *, group: str) -> None:
        """A node of this group is to go."""
        known = self._groups.by_name.get(group)
        deprovision_s = known.deprovision_s if known is not None else 0.0
        self._begin(("remove", effect.node), on_grid(after(effect.at, deprovision_s)), effect)

    def plug(self, effect: PlugDevice) -> bool:
        """A device is attached. False if that was known."""
        on_node = self.devices.setdefault(effect.node, {})
        return on_node.setdefault(effect.device_uuid, effect) is effect

    def show(self, effect: PlugDevice) -> None:
        """Have its node show a device in time."""
        self._begin(("show", effect.device_uuid), self.visible_at(effect), effect)

    def unplug(self, node: str, uuid: str) -> None:
        """A device is not attached any more."""
        self.shown(uuid)
        on_node = self.devices.get(node, {})
        if on_node.pop(uuid, None) is not None and not on_node:
            del self.devices[node]

    # --- what is not asked any more ------------------------------------------------------------------------------

    def cancel(self, scale: str) -> None:
        """Neither does this choice's node come nor go."""
        self._under_way.pop(("add", scale), None)
        for key, (_, change) in tuple(self._under_way.items()):
            if isinstance(change, RemoveNode) and change.scale == scale:
                del self._under_way[key]

    def came(self, node: str) -> None:
        """The node is there: nothing is to be added under this name."""
        for key, (_, change) in tuple(self._under_way.items()):
            if isinstance(change, AddNode) and change.node == node:
                del self._under_way[key]

    def left(self, node: str) -> bool:
        """The node is not there any more. Whether that was under way."""
        return self._under_way.pop(("remove", node), None) is not None

    def shown(self, uuid: str) -> None:
        """The device is seen, or is not to be."""
        self._under_way.pop(("show", uuid), None)

    # --- as time passes ------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> Iterator[tuple[Instant, Change]]:
        """What happens until `now`, in order, each with its moment; then it is under way no more."""
        while (moment := self.next()) is not None and moment <= now:
            _, key = heapq.heappop(self._heap)
            yield self._under_way.pop(key)

    def next(self) -> Instant | None:
        """When something happens next."""
        while self._heap and self._is_stale(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def devices_of(self, node: str) -> list[PlugDevice]:
        """What the fabric attached to the node's machine, in the order in which it is shown."""
        devices = self.devices.get(node, {}).values()
        return sorted(devices, key=lambda device: (self.visible_at(device), device.device_uuid))

    def visible_at(self, effect: PlugDevice) -> Instant:
        """When its node shows the device."""
        return on_grid(after(effect.at, self._groups.visible_s))

    def refusal(self, wish: AddNode) -> str:
        """Why this node does not come, "" if it does."""
        if wish.group not in self._groups.by_name:
            return f"there is no node group {wish.group!r}"
        return "the machine did not come up" if fails_to_come(self._behaviour, scale=wish.scale) else ""

    def _begin(self, key: _Key, due: Instant, change: Change) -> None:
        if key not in self._under_way:
            self._under_way[key] = (due, change)
            heapq.heappush(self._heap, (due, key))

    def _is_stale(self, due: Instant, key: _Key) -> bool:
        entry = self._under_way.get(key)
        return entry is None or entry[0] != due
