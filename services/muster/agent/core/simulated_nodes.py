"""Simulated nodes: they join, fail and rejoin, are added and removed, and show devices.

Initial descriptions come from the settings; added nodes and devices of composable nodes follow from facts, or from a
checkpoint where those facts are gone.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from muster.agent.core.behaviour import Behaviour, fails_to_come, next_failure_s
from muster.agent.core.cluster import (
    AddNode,
    CancelScale,
    NodeEffect,
    NodeLeftSeen,
    NodeLostSeen,
    NodeObservation,
    NodeReturnedSeen,
    NodeSeen,
    PlugDevice,
    ProvisionFailedSeen,
    RecallNode,
    RemoveNode,
    UnplugDevice,
    on_grid,
)
from muster.agent.core.devices import is_shown, with_device, without_device
from muster.agent.core.fleet import Groups, node_of
from muster.core import Instant, after
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot

Change = AddNode | RemoveNode | PlugDevice
_Key = tuple[Literal["add", "remove", "show"], str]


class Changes:
    """Pending changes: nodes to add, by decision, nodes to remove, by name, and devices to show, by uuid."""

    def __init__(self, groups: Groups, behaviour: Behaviour) -> None:
        self.devices: dict[str, dict[str, PlugDevice]] = {}
        """All attached devices by node and uuid, shown or not."""
        self._groups = groups
        self._behaviour = behaviour
        self._under_way: dict[_Key, tuple[Instant, Change]] = {}
        self._heap: list[tuple[Instant, _Key]] = []  # entries that are not under way any more are stale

    # --- what is asked -------------------------------------------------------------------------------------------

    def add(self, effect: AddNode) -> None:
        """Add a node."""
        group = self._groups.by_name.get(effect.group)
        provision_s = group.provision_s if group is not None else 0.0
        self._begin(("add", effect.scale), on_grid(after(effect.at, provision_s)), effect)

    def remove(self, effect: RemoveNode, *, group: str) -> None:
        """Remove a node of this group."""
        known = self._groups.by_name.get(group)
        deprovision_s = known.deprovision_s if known is not None else 0.0
        self._begin(("remove", effect.node), on_grid(after(effect.at, deprovision_s)), effect)

    def plug(self, effect: PlugDevice) -> bool:
        """Record an attached device. False if it was known."""
        on_node = self.devices.setdefault(effect.node, {})
        return on_node.setdefault(effect.device_uuid, effect) is effect

    def show(self, effect: PlugDevice) -> None:
        """Show a device on its node after a delay."""
        self._begin(("show", effect.device_uuid), self.visible_at(effect), effect)

    def unplug(self, node: str, uuid: str) -> None:
        """Record a detached device."""
        self.shown(uuid)
        on_node = self.devices.get(node, {})
        if on_node.pop(uuid, None) is not None and not on_node:
            del self.devices[node]

    # --- what is not asked any more ------------------------------------------------------------------------------

    def cancel(self, scale: str) -> None:
        """Cancel the addition or removal of a decision."""
        self._under_way.pop(("add", scale), None)
        for key, (_, change) in tuple(self._under_way.items()):
            if isinstance(change, RemoveNode) and change.scale == scale:
                del self._under_way[key]

    def came(self, node: str) -> None:
        """Record that the node is present."""
        for key, (_, change) in tuple(self._under_way.items()):
            if isinstance(change, AddNode) and change.node == node:
                del self._under_way[key]

    def left(self, node: str) -> bool:
        """Record that the node is gone; return whether its removal was pending."""
        return self._under_way.pop(("remove", node), None) is not None

    def shown(self, uuid: str) -> None:
        """Drop the pending show of a device."""
        self._under_way.pop(("show", uuid), None)

    # --- as time passes ------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> Iterator[tuple[Instant, Change]]:
        """Yield and remove the changes until `now`, in order, each with its time."""
        while (moment := self.next()) is not None and moment <= now:
            _, key = heapq.heappop(self._heap)
            yield self._under_way.pop(key)

    def next(self) -> Instant | None:
        """Return the time of the next change."""
        while self._heap and self._is_stale(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def devices_of(self, node: str) -> list[PlugDevice]:
        """Return the devices attached to the node's machine, in the order in which they are shown."""
        devices = self.devices.get(node, {}).values()
        return sorted(devices, key=lambda device: (self.visible_at(device), device.device_uuid))

    def visible_at(self, effect: PlugDevice) -> Instant:
        """Return when its node shows the device."""
        return on_grid(after(effect.at, self._groups.visible_s))

    def refusal(self, request: AddNode) -> str:
        """Return why this node does not come up, "" if it does."""
        if request.group not in self._groups.by_name:
            return f"there is no node group {request.group!r}"
        return "the machine did not come up" if fails_to_come(self._behaviour, scale=request.scale) else ""

    def _begin(self, key: _Key, due: Instant, change: Change) -> None:
        if key not in self._under_way:
            self._under_way[key] = (due, change)
            heapq.heappush(self._heap, (due, key))

    def _is_stale(self, due: Instant, key: _Key) -> bool:
        entry = self._under_way.get(key)
        return entry is None or entry[0] != due


@dataclass(slots=True)
class _Node:
    """A node of the cluster. `known` is its description in the log, None if it has none.

    At `due` it fails, or rejoins if it is lost; None: never.
    """

    description: NodeJoined
    known: NodeJoined | None = None
    is_lost: bool = False
    due: Instant | None = None


class SimulatedNodes:
    """The nodes of `SimulatedCluster`: the fleet and the initial nodes of groups."""

    def __init__(self, fleet: Mapping[str, NodeJoined], behaviour: Behaviour, groups: Groups) -> None:
        first = {**fleet, **groups.first_nodes()}
        self._behaviour = behaviour
        self._groups = groups
        self._changes = Changes(groups, behaviour)
        self._nodes = {name: _Node(description) for name, description in first.items()}
        self._heap: list[tuple[Instant, str]] = []  # entries whose moment is no longer their node's are stale
        self._seen: dict[str, NodeObservation] = {name: NodeSeen(name, node) for name, node in first.items()}
        self._failed: dict[str, ProvisionFailedSeen] = {}

    def carry_out(self, effect: NodeEffect) -> None:
        """Accept an effect."""
        match effect:
            case AddNode():
                node = self._nodes.get(effect.node)
                if node is None or node.description.scale != effect.scale:
                    self._changes.add(effect)
            case RemoveNode() if effect.node in self._nodes:
                self._changes.remove(effect, group=self._nodes[effect.node].description.group)
            case CancelScale():
                self._changes.cancel(effect.scale)
                self._failed.pop(effect.scale, None)
            case PlugDevice():
                self._plug(effect)
            case UnplugDevice():
                self._unplug(effect)
            case RecallNode():
                self._recall(effect)

    def observe(self, now: Instant) -> Iterator[NodeObservation]:
        """Return unacknowledged observations at `now`."""
        while self._heap and self._heap[0][0] <= now:
            due, name = heapq.heappop(self._heap)
            if not self._is_stale(due, name):
                self._turn(name, self._nodes[name])
        for moment, change in self._changes.due(now):
            self._happen(change, moment)
        return itertools.chain(self._seen.values(), self._failed.values())

    def acknowledge(self, observation: NodeObservation, at: Instant) -> None:
        """Record that the log has an observation."""
        match observation:
            case NodeSeen():
                self._acknowledge_description(observation, at)
            case NodeLeftSeen():
                self._forget(observation.node)
            case NodeLostSeen() | NodeReturnedSeen():
                self._acknowledge_health(observation, at)
            case ProvisionFailedSeen():
                self._changes.cancel(observation.scale)
                self._failed.pop(observation.scale, None)

    def next_change(self) -> Instant | None:
        """Return the time of the next event."""
        if self._seen or self._failed:
            return Instant(0)
        while self._heap and self._is_stale(*self._heap[0]):
            heapq.heappop(self._heap)
        moments = (self._heap[0][0] if self._heap else None, self._changes.next())
        return min((moment for moment in moments if moment is not None), default=None)

    def device_uuids(self, slot: Slot) -> tuple[str, ...]:
        """Return the devices of the slot's pod; "" for an absent one."""
        node = self._nodes.get(slot.node)
        if node is None:
            return ("",) * slot.gpu_count
        present = node.description.present
        return tuple(present.get(index, "") for index in devices_of(slot, node.description))

    def set_version(self, name: str, component: str, version: str) -> None:
        """Set the version of a component, which the node then reports."""
        node = self._nodes.get(name)
        if node is not None:
            versions = tuple(sorted({**dict(node.description.versions), component: version}.items()))
            node.description = node.description.model_copy(update={"versions": versions})
            self._show(name, node)

    # --- nodes and devices that come and go ----------------------------------------------------------------------

    def _plug(self, effect: PlugDevice) -> None:
        node = self._nodes.get(effect.node)
        if not self._changes.plug(effect) or (node is not None and is_shown(node.description, effect.device_uuid)):
            return
        self._changes.show(effect)

    def _unplug(self, effect: UnplugDevice) -> None:
        self._changes.unplug(effect.node, effect.device_uuid)
        node = self._nodes.get(effect.node)
        if node is not None and node.description.machine:
            node.description = without_device(node.description, effect.device_uuid, memory_mib=effect.memory_mib)
            self._show(effect.node, node)

    def _recall(self, effect: RecallNode) -> None:
        """Restore a node that facts define from a checkpoint; the settings define the others."""
        description = effect.description
        if description is None:
            self._nodes.pop(effect.node, None)
            self._seen.pop(effect.node, None)
        elif self._groups.is_shaped_by_facts(description):
            self._nodes[effect.node] = _Node(description)
            self._changes.came(effect.node)
            for device in self._changes.devices_of(effect.node):
                if is_shown(description, device.device_uuid):
                    self._changes.shown(device.device_uuid)
        elif description.versions and (node := self._nodes.get(effect.node)) is not None:
            node.description = node.description.model_copy(update={"versions": description.versions})

    def _happen(self, change: Change, moment: Instant) -> None:
        match change:
            case AddNode():
                self._come(change, moment)
            case RemoveNode():
                if self._nodes.pop(change.node, None) is not None:
                    self._seen[change.node] = NodeLeftSeen(change.node, f"removed by {change.scale}")
            case PlugDevice():
                node = self._nodes.get(change.node)
                if node is not None:
                    node.description = _with(node.description, change)
                    self._show(change.node, node)

    def _come(self, request: AddNode, moment: Instant) -> None:
        reason = self._changes.refusal(request) or (
            "there is a node of this name" if request.node in self._nodes else ""
        )
        if reason:
            self._failed[request.scale] = ProvisionFailedSeen(request.scale, request.group, request.node, reason)
            return
        description = node_of(self._groups.by_name[request.group], request.node, scale=request.scale)
        for device in self._changes.devices_of(request.node):
            if self._changes.visible_at(device) <= moment:  # they are on the machine of the node
                description = _with(description, device)
        self._nodes[request.node] = _Node(description)
        self._seen[request.node] = NodeSeen(request.node, description)

    def _show(self, name: str, node: _Node) -> None:
        """Report the node if its description differs from the log's; a lost node reports nothing before it rejoined."""
        if isinstance(self._seen.get(name), NodeLostSeen | NodeReturnedSeen):
            return
        if node.is_lost or node.known == node.description:
            self._seen.pop(name, None)
        else:
            self._seen[name] = NodeSeen(name, node.description)

    def _acknowledge_description(self, observation: NodeSeen, at: Instant) -> None:
        name, described = observation.node, observation.description
        node = self._nodes.get(name) or self._added(name, described)
        if node is None:
            self._seen[name] = NodeLeftSeen(name, "not part of the cluster any more")
            return
        for device in self._changes.devices_of(name):
            if is_shown(described, device.device_uuid):
                node.description = _with(node.description, device)
                self._changes.shown(device.device_uuid)
        node.known = described
        self._show(name, node)
        self._plan(name, node, at)

    def _added(self, name: str, described: NodeJoined) -> _Node | None:
        """Return the node of this name that the log reports as added."""
        group = self._groups.by_name.get(described.group)
        if group is None or not described.scale:
            return None
        self._changes.came(name)
        node = self._nodes[name] = _Node(node_of(group, name, scale=described.scale))
        return node

    def _forget(self, name: str) -> None:
        self._seen.pop(name, None)
        if self._changes.left(name):
            self._nodes.pop(name, None)
        node = self._nodes.get(name)
        if node is not None:  # the node still exists: it joins again
            node.known, node.is_lost, node.due = None, False, None
            self._show(name, node)

    # --- nodes that fail and return ------------------------------------------------------------------------------

    def _acknowledge_health(self, observation: NodeLostSeen | NodeReturnedSeen, at: Instant) -> None:
        node = self._nodes.get(observation.node)
        if node is None:
            return
        if isinstance(self._seen.get(observation.node), type(observation)):
            del self._seen[observation.node]
        node.is_lost = isinstance(observation, NodeLostSeen)
        self._show(observation.node, node)
        self._plan(observation.node, node, at)

    def _plan(self, name: str, node: _Node, since: Instant) -> None:
        """Schedule the end of the node's up or lost time, which began at `since`."""
        if node.is_lost:
            seconds: float | None = self._behaviour.node_repair_s
        else:
            seconds = next_failure_s(self._behaviour, node=name, up_since=since)
        if seconds is None:
            node.due = None
            return
        node.due = on_grid(after(since, seconds))
        heapq.heappush(self._heap, (node.due, name))

    def _is_stale(self, due: Instant, name: str) -> bool:
        node = self._nodes.get(name)
        return node is None or node.due != due

    def _turn(self, name: str, node: _Node) -> None:
        """Fail or rejoin."""
        node.due = None
        if node.known is None or name in self._seen:
            return
        self._seen[name] = NodeReturnedSeen(name) if node.is_lost else NodeLostSeen(name, "stopped answering")


def _with(node: NodeJoined, device: PlugDevice) -> NodeJoined:
    """Return the node with the device, if it is on a fabric."""
    if not node.machine:
        return node
    return with_device(node, device.device_uuid, type=device.type, model=device.model, memory_mib=device.memory_mib)


def devices_of(slot: Slot, node: NodeJoined) -> tuple[int, ...]:
    """Return the indexes of the devices of the slot's pod on this node, ascending."""
    if not slot.gpus:
        return slot.devices
    present = tuple(node.present)
    turned = dict(zip(present, reversed(present), strict=True))
    places = slot.places or present[: slot.gpus]
    return tuple(sorted(turned[place] for place in places if place in turned))
