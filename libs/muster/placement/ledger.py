"""The ledger of a fleet: what each node offers, what is held on it, and which nodes are in the same state.

It makes no decisions. Every change moves one node from one state to another, and each new state is announced in a log
that rankings follow, so that the work after a change does not grow with the fleet.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from muster.placement.node import Node
from muster.placement.shapes import GpuTotals, Hold, HoldError, NodeShape
from muster.placement.state import NodeState, StateKey
from muster.placement.topology import Domain

IDLE_STATES_MAX = 4_096
"""States without nodes that are kept with their cached answers, because states recur."""

NEWS_MIN = 1_024
"""Minimum of announced states to keep; beyond twice the number of live states the oldest are dropped."""


class _Sums:
    __slots__ = ("free", "total", "used")

    def __init__(self) -> None:
        self.total = self.used = self.free = 0


class Ledger:
    """Nodes, states and sums. `version` grows when capacity is freed, `moves` when a node's state changes."""

    def __init__(self) -> None:
        self.version = 0
        self.nodes: dict[str, Node] = {}
        self.states: dict[StateKey, NodeState] = {}
        self.live: dict[NodeState, None] = {}
        self.news: list[NodeState] = []
        self.news_start = 0
        self.moves = 0
        self.ill: dict[Node, None] = {}
        """Nodes that are unusable, or have unusable devices, except those that only join or leave."""
        self.moved: dict[str, StateKey | None] | None = None
        """The former states of nodes whose state changed since the last read; None while there is no reader."""
        self.touched: set[str] = set()
        """Nodes that changed since the table of all nodes was made (`Fleet.table`)."""
        self._sums: dict[str, _Sums] = {}

    def add(self, shape: NodeShape, domains: Sequence[Domain] = ()) -> None:
        """Add an empty, usable node in these domains. Its name must be new."""
        assert shape.name not in self.nodes
        self.nodes[shape.name] = node = Node(shape, domains)
        self._sums.setdefault(shape.gpu_model, _Sums()).total += shape.device_milli * shape.device_count
        self._file(node)
        self.version += 1

    def remove(self, name: str) -> None:
        """Remove a node. Raise HoldError while something is held on it."""
        node = self.node(name)
        if node.holds:
            raise HoldError(f"node {name} still has {node.holds} holds: release them before removing it")
        node.usable = False
        self._file(node)
        self._sums[node.shape.gpu_model].total -= node.shape.device_milli * node.shape.device_count
        del self.nodes[name]
        self.ill.pop(node, None)
        self.moves += 1  # the removal of an unusable node changes no state

    def set_usable(self, name: str, usable: bool, *, ill: bool = True) -> bool:
        """Set whether a node takes new holds; its present holds stay. Return True if only the reason changed.

        `ill`: whether an unusable node is unhealthy; False: it only joins or leaves.
        """
        node = self.node(name)
        is_moving = not usable and not ill
        is_other = node.is_moving != is_moving
        node.is_moving = is_moving
        if node.usable != usable:
            node.usable = usable
            self._note_health(node)
            self._file(node)
            self.version += usable
            return False
        return is_other and self._regard(node)

    def set_device_usable(self, name: str, index: int, usable: bool, *, ill: bool = True) -> bool:
        """Set the same of one device. Raise HoldError for an unknown device."""
        node = self.node(name)
        if not 0 <= index < len(node.idle) or index in node.shape.absent:
            raise HoldError(f"node {name} has {node.shape.device_count} devices: there is no device {index}")
        is_moving = not usable and not ill
        is_other = (index in node.moving) != is_moving
        if is_other:
            node.moving ^= {index}
        if usable == (index in node.broken):
            node.set_broken(node.broken ^ {index})
            self._note_health(node)
            self._file(node)
            self.version += usable
            return False
        return is_other and self._regard(node)

    def node(self, name: str) -> Node:
        """Return the node of this name. Raise HoldError if there is none."""
        node = self.nodes.get(name)
        if node is None:
            raise HoldError(f"node {name} is not in the fleet")
        return node

    def take(self, hold: Hold) -> None:
        """Enter a hold, on an unusable node too. Raise HoldError if anything would be held twice."""
        slot = hold.slot
        node = self.node(slot.node)
        cpu, memory = node.cpu_milli - hold.cpu_milli, node.memory_mib - hold.memory_mib
        idle, share = node.idle, slot.gpu_milli
        if cpu < 0 or memory < 0:
            raise HoldError(
                f"node {slot.node} has {node.cpu_milli} cpu_milli, {node.memory_mib} memory_mib left: {hold}"
            )
        self._check_devices(node, hold)
        for index in slot.devices:
            if idle[index] < share:
                raise HoldError(f"node {slot.node} device {index} has {idle[index]} milli left: {hold}")
        node.cpu_milli, node.memory_mib = cpu, memory
        node.holds += 1
        if slot.devices:
            for index in slot.devices:
                idle[index] -= share
            self._sums[node.shape.gpu_model].used += share * len(slot.devices)
        self._file(node)

    def give(self, hold: Hold) -> None:
        """Undo a hold without announcing freed capacity. Raise HoldError if it is not held."""
        slot = hold.slot
        node = self.node(slot.node)
        cpu, memory = node.cpu_milli + hold.cpu_milli, node.memory_mib + hold.memory_mib
        idle, share = node.idle, slot.gpu_milli
        if not node.holds or cpu > node.shape.cpu_milli or memory > node.shape.memory_mib:
            raise HoldError(f"node {slot.node} holds {node.holds} tasks and less than is released: {hold}")
        self._check_devices(node, hold)
        for index in slot.devices:
            if idle[index] + share > node.shape.device_milli:
                held = node.shape.device_milli - idle[index]
                raise HoldError(f"node {slot.node} device {index} holds {held} milli: {hold}")
        node.cpu_milli, node.memory_mib = cpu, memory
        node.holds -= 1
        if slot.devices:
            for index in slot.devices:
                idle[index] += share
            self._sums[node.shape.gpu_model].used -= share * len(slot.devices)
        self._file(node)

    def totals(self) -> dict[str, GpuTotals]:
        """Return milli-GPUs by model, without models that have no devices."""
        return {model: GpuTotals(s.total, s.used, s.free) for model, s in sorted(self._sums.items()) if s.total}

    def models(self) -> tuple[str, ...]:
        """Return the models of the fleet's devices."""
        return tuple(sorted(model for model, sums in self._sums.items() if sums.total))

    @contextmanager
    def healed(self) -> Iterator[None]:
        """Make every node and device usable for a while, except those that join or leave.

        Holds stay, and no change is announced.
        """
        ill = list(self.ill)
        was, moves = [(node.usable, node.broken) for node in ill], self.moves
        try:
            for node in ill:
                node.usable = not node.is_moving
                node.set_broken(node.moving)
                self._file(node)
            yield
        finally:
            for node, (usable, broken) in zip(ill, was, strict=True):
                node.usable = usable
                node.set_broken(broken)
                self._file(node)
            self.moves = moves

    def _regard(self, node: Node) -> bool:
        """Record another reason for being unusable."""
        self._note_health(node)
        self.moves += 1  # the state does not show the reason
        return True

    def _note_health(self, node: Node) -> None:
        is_well = not node.broken or node.broken == node.moving if node.usable else node.is_moving
        if is_well:
            self.ill.pop(node, None)
        else:
            self.ill[node] = None

    def _check_devices(self, node: Node, hold: Hold) -> None:
        devices, share = hold.slot.devices, hold.slot.gpu_milli
        if not devices and not share and hold.cpu_milli >= 0 <= hold.memory_mib:
            return
        if len(set(devices)) < len(devices) or min(devices, default=-1) < 0 or max(devices) >= len(node.idle):
            raise HoldError(f"node {node.shape.name} has devices 0 to {len(node.idle) - 1}, each held once: {hold}")
        if node.shape.absent and not node.shape.absent.isdisjoint(devices):
            raise HoldError(f"node {node.shape.name} has no devices {sorted(node.shape.absent)}: {hold}")
        if not 0 < share <= node.shape.device_milli or hold.cpu_milli < 0 or hold.memory_mib < 0:
            raise HoldError(f"a hold has amounts from 0 and 1 to 1000 gpu_milli per device: {hold}")

    def _file(self, node: Node) -> None:
        """Move a node to its present state."""
        self.touched.add(node.shape.name)
        before, after = node.state, None
        if node.usable:
            shares = tuple(node.free_shares()) if node.idle else ()
            parts = node.arrangement() if node.layout is not None else ()
            shape = node.shape
            whole = not node.holds and not node.broken and not shape.parts_only
            key = StateKey(
                sum(shares), node.cpu_milli, node.memory_mib, shares, shape.gpu_model, whole, parts, shape.share_sizes
            )
            after = self.states.get(key)
            if after is None:
                after = self.states[key] = NodeState(key)
        if after is before:
            return
        name, sums = node.shape.name, self._sums[node.shape.gpu_model]
        self.moves += 1
        if self.moved is not None and name not in self.moved:
            self.moved[name] = None if before is None else before.key
        if before is not None:
            sums.free -= before.key.idle_milli
            del before.names[bisect_left(before.names, name)]
            if not before.names:
                del self.live[before]
        if after is not None:
            sums.free += after.key.idle_milli
            if not after.names:
                self.live[after] = None
                self._announce(after)
            insort(after.names, name)
        for domain in node.domains:
            domain.move(name, before, after)
        node.state = after

    def _announce(self, state: NodeState) -> None:
        self.news.append(state)
        keep = max(NEWS_MIN, 2 * len(self.live))
        if len(self.news) > 2 * keep:
            drop = len(self.news) - keep
            del self.news[:drop]
            self.news_start += drop
        if len(self.states) > len(self.live) + IDLE_STATES_MAX:
            self.states = {live.key: live for live in self.live}
            # A dropped state may recur as another object: followers of the log must start again.
            self.news_start += len(self.news)
            self.news.clear()
