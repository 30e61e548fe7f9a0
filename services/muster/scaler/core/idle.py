"""Since when each device and node of a node group holds nothing.

Updated per changed node, so folding costs only what changed. Devices and nodes that have been idle for their time are
found by a heap of due times; outdated entries are skipped.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from muster.cluster import Holds
from muster.cluster.node_records import NodeTable
from muster.core import Instant, after
from muster.core.settings import GroupSettings
from muster.placement import DEVICE_MILLI, Fleet
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.limits import IDLE_ENTRIES_SPARE
from muster.schemas.facts.scale import IdleSince

LOW_SHARE = 0.5
"""A node with a lower used share could be removed if its jobs could move (the Cluster Autoscaler's threshold)."""


@dataclass(slots=True)
class Stopwatch:
    """Since when a condition holds for each name, and the names for which it has held for their time."""

    due: Callable[[str, Instant], Instant]
    """Returns when a name has elapsed, from its start."""
    since: dict[str, Instant] = field(default_factory=dict)
    _elapsed: dict[str, None] = field(default_factory=dict)
    _heap: list[tuple[Instant, str]] = field(default_factory=list)

    def start(self, name: str, at: Instant) -> None:
        """Start the time of a name, unless it runs already."""
        if name not in self.since:
            self.since[name] = at
            heappush(self._heap, (self.due(name, at), name))
            if len(self._heap) > 2 * len(self.since) + IDLE_ENTRIES_SPARE:
                self._heap = [
                    (self.due(name, at), name) for name, at in self.since.items() if name not in self._elapsed
                ]
                heapify(self._heap)

    def stop(self, name: str) -> None:
        """Stop the time of a name."""
        if self.since.pop(name, None) is not None:
            self._elapsed.pop(name, None)

    def elapsed(self, now: Instant) -> Collection[str]:
        """Return the names whose time is over, the earliest first."""
        while self._heap and self._heap[0][0] <= now:
            due, name = heappop(self._heap)
            if name in self.since and self.due(name, self.since[name]) == due:
                self._elapsed[name] = None
        return self._elapsed.keys()

    def next_due(self) -> Instant | None:
        """Return when the next name elapses; None if none does by time alone."""
        while self._heap:
            due, name = self._heap[0]
            if name in self.since and name not in self._elapsed and self.due(name, self.since[name]) == due:
                return due
            heappop(self._heap)
        return None


class IdleClock:
    """Idle devices, empty nodes and nodes that are hardly used, of the configured groups."""

    def __init__(self, config: ScalingConfig, nodes: NodeTable, fleet: Fleet, holds: Holds) -> None:
        self._config = config
        self._records = nodes
        self._fleet = fleet
        self._holds = holds
        self._groups: dict[str, str] = {}
        gpu_idle_s, node_unneeded_s = config.settings.gpu_idle_s, config.settings.node_unneeded_s
        self.devices = Stopwatch(lambda _, at: after(at, gpu_idle_s))
        self.rested = Stopwatch(lambda _, at: after(at, min(gpu_idle_s, node_unneeded_s)))
        """The same devices with the shorter of the two times."""
        self.nodes = Stopwatch(lambda _, at: after(at, node_unneeded_s))
        """Nodes that hold nothing."""
        self.low = Stopwatch(lambda _, at: after(at, node_unneeded_s))
        """Nodes of which less than LOW_SHARE is used."""
        self.spent = Stopwatch(self._spent_at)
        """Nodes empty for longer than a removal and a new provision take, so that removing them saves power."""
        self._of_devices = (("device", self.devices), ("device", self.rested))
        self._of_nodes = (("node", self.nodes), ("node", self.spent), ("low", self.low))
        self.on: dict[str, dict[str, None]] = {}
        """Idle devices by node."""
        self.node_of: dict[str, str] = {}
        """The node of each idle device."""
        self.idle_in: dict[str, dict[str, None]] = {name: {} for name in config.groups}
        """Idle devices by group."""
        self._stored: dict[tuple[str, str], Instant] = {}

    def look(self, name: str, *, at: Instant) -> None:
        """Update a node that changed at `at`: it joined, left, or its devices or what jobs hold there changed."""
        record = self._records.get(name)
        node = record.description if record is not None else None
        if record is None or node is None or node.group not in self._config.groups:
            self._forget(name)
            return
        self._groups[name] = node.group
        shown = {uuid: index for index, uuid in node.present.items()}
        held = self._holds.devices_held(name, shown)
        idle = {uuid: None for uuid in shown if uuid not in held}
        self._set_devices(name, idle, at)
        is_low = used_share(self._fleet, name) < LOW_SHARE
        for kind, watch in self._of_nodes:
            self._run(watch, name, kind, at, runs=is_low if watch is self.low else not record.jobs)

    def next_due(self, now: Instant) -> Instant | None:
        """Return when the next device or node, after those of `now`, has been idle for its time."""
        watches = [watch for _, watch in (*self._of_devices, *self._of_nodes)]
        for watch in watches:
            watch.elapsed(now)
        moments = [watch.next_due() for watch in watches]
        return min((moment for moment in moments if moment is not None), default=None)

    # --- checkpoints -----------------------------------------------------------------------------------------

    def stored_devices(self) -> tuple[IdleSince, ...]:
        """Return the idle devices, for a checkpoint."""
        return _stored(self.devices)

    def stored_nodes(self) -> tuple[IdleSince, ...]:
        """Return the empty nodes, for a checkpoint."""
        return _stored(self.nodes)

    def stored_low(self) -> tuple[IdleSince, ...]:
        """Return the hardly used nodes, for a checkpoint."""
        return _stored(self.low)

    def load(self, *, devices: Iterable[IdleSince], nodes: Iterable[IdleSince], low: Iterable[IdleSince]) -> None:
        """Load the idle times of a checkpoint; the devices and nodes may be folded before or after it."""
        for kind, entries in (("device", devices), ("node", nodes), ("low", low)):
            for entry in entries:
                self._stored[kind, entry.name] = Instant(entry.at)
        for kind, watch in (*self._of_devices, *self._of_nodes):
            for name in [name for name in watch.since if (kind, name) in self._stored]:
                watch.stop(name)
                watch.start(name, self._stored[kind, name])

    # --- inside ----------------------------------------------------------------------------------------------

    def _spent_at(self, name: str, at: Instant) -> Instant:
        group = self._config.groups[self._groups[name]]
        return after(at, max(self._config.settings.node_unneeded_s, _break_even_s(group)))

    def _set_devices(self, name: str, idle: dict[str, None], at: Instant) -> None:
        in_group = self.idle_in[self._groups[name]]
        for uuid in self.on.get(name, {}):
            if uuid not in idle:
                self._run_device(uuid, at, runs=False)
                in_group.pop(uuid, None)
                self.node_of.pop(uuid, None)
        for uuid in idle:
            in_group[uuid] = None
            self.node_of[uuid] = name
            self._run_device(uuid, at, runs=True)
        self.on[name] = idle

    def _run_device(self, uuid: str, at: Instant, *, runs: bool) -> None:
        for kind, watch in self._of_devices:
            self._run(watch, uuid, kind, at, runs=runs)

    def _run(self, watch: Stopwatch, name: str, kind: str, at: Instant, *, runs: bool) -> None:
        if runs:
            watch.start(name, self._stored.get((kind, name), at))
        else:
            watch.stop(name)
            self._stored.pop((kind, name), None)

    def _forget(self, name: str) -> None:
        if name not in self._groups:
            return
        self._set_devices(name, {}, Instant(0))
        for kind, watch in self._of_nodes:
            self._run(watch, name, kind, Instant(0), runs=False)
        self.on.pop(name, None)
        del self._groups[name]


def used_share(fleet: Fleet, name: str) -> float:
    """Return the used share of a node: of its GPUs if it has any, else of CPU or memory, whichever is higher.

    This is the rule of the Cluster Autoscaler's scale-down. Returns 1 for a node that is not in the fleet.
    """
    node = fleet.ledger.nodes.get(name)
    if node is None:
        return 1.0
    shape = node.shape
    if shape.devices:
        return 1.0 - sum(node.idle[index] for index in shape.devices) / (DEVICE_MILLI * len(shape.devices))
    cpu = 1.0 - node.cpu_milli / shape.cpu_milli if shape.cpu_milli else 0.0
    memory = 1.0 - node.memory_mib / shape.memory_mib if shape.memory_mib else 0.0
    return max(cpu, memory)


def _break_even_s(group: GroupSettings) -> float:
    return group.round_trip_s if group.composable else 0.0


def _stored(watch: Stopwatch) -> tuple[IdleSince, ...]:
    return tuple(IdleSince(name=name, at=at) for name, at in sorted(watch.since.items()))
