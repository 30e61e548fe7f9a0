"""Search for additional devices with most replicas: steps of all nodes, cheapest first, and domains that need fewest.

Nodes in the same state that can get as many devices are handled together, and steps are computed on demand. `Growth`
adds devices to the fleet itself, and removes them when it is closed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from types import TracebackType
from typing import NamedTuple, Self

from muster.placement import DEVICE_MILLI, NODE_LEVEL, Fleet, GroupRequest, Hold, TaskShape, share_of
from muster.placement.growth import grow, shrink
from muster.placement.state import UNBOUNDED_COUNT, NodeState, StateKey, allows, count
from muster.placement.topology import Domain
from muster.scaler.core import limits
from muster.scaler.core.capacity import Source
from muster.scaler.core.cluster import hold_on
from muster.scaler.core.groups import ScalingConfig


class Step(NamedTuple):
    """A number of devices on a node that make room for `gain` more replicas. Sorts by preference."""

    rate: float
    """Devices per replica."""
    watts: float
    """Power per replica."""
    ready_s: float
    cpu_milli: int
    """Free CPU of the node."""
    node: str
    number: int
    devices: int
    gain: int
    source: Source


class Growth:
    """Devices added to nodes of a fleet, and holds; closing undoes all of it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.added: dict[tuple[str, Source], int] = {}
        self.taken: list[tuple[str, int]] = []
        self._before: dict[str, str] = {}
        self._holds: list[Hold] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
        for node, source in reversed(list(self.added)):
            self.remove(node, source, self.added[node, source])
        for node, index in reversed(self.taken):
            self.fleet.set_device_usable(node, index, True)

    @property
    def devices(self) -> int:
        """Number of added devices."""
        return sum(self.added.values())

    def add(self, node: str, source: Source, devices: int) -> None:
        """Add devices to this node."""
        self._before.setdefault(node, self.fleet.ledger.node(node).shape.gpu_model)
        grow(self.fleet, node, devices, model=source.model)
        key = node, source
        self.added[key] = self.added.get(key, 0) + devices

    def remove(self, node: str, source: Source, devices: int) -> None:
        """Remove added devices from this node."""
        key = node, source
        left = self.added[key] - devices
        is_last = not left
        shrink(self.fleet, node, devices, model=self._before[node] if is_last else source.model)
        self.added[key] = left
        if is_last:
            del self.added[key]

    def take_away(self, node: str, index: int) -> None:
        """Mark a device as unusable, because it moves to another node."""
        self.fleet.set_device_usable(node, index, False)
        self.taken.append((node, index))

    def hold(self, holds: Iterable[Hold]) -> None:
        """Hold these places until `release`."""
        for hold in holds:
            self.fleet.hold(hold)
            self._holds.append(hold)

    def hold_among(self, names: Iterable[str], shape: TaskShape, replicas: int) -> bool:
        """Hold replicas on these nodes, the fullest first; return False if there is no room for all."""
        nodes = self.fleet.ledger.nodes
        able = [(node.state.key, name) for name in names if (node := nodes[name]).state is not None]
        for _, name in sorted(able):
            while replicas and (hold := hold_on(self.fleet, name, shape)) is not None:
                self.hold((hold,))
                replicas -= 1
        return not replicas

    def release(self) -> None:
        """Free all holds."""
        while self._holds:
            self.fleet.withdraw(self._holds.pop())


def steps_of(key: StateKey, shape: TaskShape, model: str, most: int) -> Sequence[tuple[int, int]]:
    """Return the steps of more devices on a node in this state, as (devices, additional replicas).

    `most` is the number of devices that the node can still get. Each step costs at least as much per replica as the one
    before. Empty if the node does not lack devices.
    """
    if not shape.holds_devices or shape.within_required or not allows(shape, model):
        return ()
    if shape.full_node:
        lacking = max(shape.gpus, 1) - len(key.shares)
        able = key.whole and key.cpu_milli >= shape.cpu_milli and key.memory_mib >= shape.memory_mib
        return ((lacking, 1),) if able and 0 < lacking <= most else ()
    bound = UNBOUNDED_COUNT
    if shape.cpu_milli:
        bound = key.cpu_milli // shape.cpu_milli
    if shape.memory_mib:
        bound = min(bound, key.memory_mib // shape.memory_mib)
    room = count(key, shape)
    if shape.gpus:
        whole = key.shares.count(DEVICE_MILLI)
        first = shape.gpus * (room + 1) - whole
        if bound <= room or first > most:
            return ()
        return [(first, 1)] + [(shape.gpus, 1)] * min(bound - room - 1, (most - first) // shape.gpus)
    taken = share_of(shape.gpu_milli, key.sizes)
    if not taken:
        return ()
    per = DEVICE_MILLI // taken
    gains = [min(per, bound - room - per * done) for done in range(most) if bound - room - per * done > 0]
    return [(1, gain) for gain in gains]


@dataclass(frozen=True, slots=True)
class _Ladder:
    """Nodes in the same state that can get as many devices each, and their steps."""

    source: Source
    busy_w: float
    attach_s: float
    cpu_milli: int
    steps: Sequence[tuple[int, int]]
    names: list[str]

    def step(self, at: int, number: int) -> Step:
        """Return one step of one of these nodes."""
        devices, gain = self.steps[number]
        rate = devices / gain
        return Step(
            rate, rate * self.busy_w, self.attach_s, self.cpu_milli, self.names[at], number, devices, gain, self.source
        )


_Rung = tuple[Step, int, _Ladder]


class Steps:
    """Steps of all nodes that can get devices; `within` limits them to some nodes."""

    def __init__(self, config: ScalingConfig, fleet: Fleet, able: Mapping[Source, Mapping[str, int]]) -> None:
        self._config = config
        self._fleet = fleet
        self._able = able
        """How many devices each node can get, by source."""

    def cheapest(
        self,
        shape: TaskShape,
        replicas: int,
        within: Sequence[str] | None,
        left: Mapping[Source, int],
        growth: Growth,
    ) -> list[Step] | None:
        """Return the cheapest steps that make room for the replicas; None if there are not enough."""
        lacking = replicas - self._room(shape, within)
        if lacking <= 0:
            return []
        left, chosen = dict(left), list[Step]()
        for step in self._all(shape, within, growth):
            if step.devices <= left[step.source]:
                left[step.source] -= step.devices
                chosen.append(step)
                lacking -= step.gain
                if lacking <= 0:
                    return chosen
        return None

    def best_of(self, groups: Sequence[GroupRequest], growth: Growth) -> Iterator[Step]:
        """Yield steps for any of these groups, each node once with all devices that it can get, largest group first."""
        seen = set[str]()
        for group in groups:
            for step in list(self._all(group.shape, None, growth)):
                if step.node not in seen and not step.number:
                    seen.add(step.node)
                    yield step._replace(devices=self._able[step.source][step.node])

    def _room(self, shape: TaskShape, within: Sequence[str] | None) -> int:
        ledger = self._fleet.ledger
        if within is None:
            return sum([len(state.names) * count(state.key, shape) for state in ledger.live])
        nodes = [ledger.nodes[name].state for name in within]
        return sum([count(state.key, shape) for state in nodes if state is not None])

    def _all(self, shape: TaskShape, within: Sequence[str] | None, growth: Growth) -> Iterator[Step]:
        """Yield the steps of all nodes, cheapest first; nodes in the same state are handled together."""
        heap = list[_Rung]()
        for source, alike in self._alike(within, growth).items():
            model = self._config.model(source.model)
            for (state, most), names in alike.items():
                steps = steps_of(state.key, shape, source.model, most)
                if steps:
                    names.sort()
                    ladder = _Ladder(source, model.busy_w, model.attach_s, state.key.cpu_milli, steps, names)
                    heap.append((ladder.step(0, 0), 0, ladder))
        heapify(heap)
        while heap:
            step, at, ladder = heap[0]
            yield step
            following = [(ladder.step(at, step.number + 1), at, ladder)] if step.number + 1 < len(ladder.steps) else []
            if not step.number and at + 1 < len(ladder.names):
                following.append((ladder.step(at + 1, 0), at + 1, ladder))
            if following:
                heapreplace(heap, following[0])
                for rung in following[1:]:
                    heappush(heap, rung)
            else:
                heappop(heap)

    def _alike(
        self, within: Sequence[str] | None, growth: Growth
    ) -> dict[Source, dict[tuple[NodeState, int], list[str]]]:
        """Return nodes that can get devices, by source, state and number of devices."""
        nodes, added = self._fleet.ledger.nodes, dict[str, int]()
        for (name, _), devices in growth.added.items():
            added[name] = added.get(name, 0) + devices
        found = dict[Source, dict[tuple[NodeState, int], list[str]]]()
        for source, able in self._able.items():
            alike = found[source] = {}
            among = able.items() if within is None else [(name, able[name]) for name in within if name in able]
            for name, most in among:
                state = nodes[name].state
                left = most - added[name] if name in added else most
                if state is not None and left > 0:
                    alike.setdefault((state, left), []).append(name)
        return found

    def domains(self, level: str, group: GroupRequest, left: Mapping[Source, int]) -> list[list[str]]:
        """Return the nodes of each domain of a level that has room for a group with devices, cheapest first."""
        nothing = Growth(self._fleet)
        costs = list[tuple[int, float, list[str]]]()
        for names in self._members(level):
            steps = self.cheapest(group.shape, group.replicas_least, names, left, nothing)
            if steps is not None:
                costs.append((sum(step.devices for step in steps), sum(step.watts for step in steps), names))
        return [names for *_, names in sorted(costs)[: limits.DOMAINS_MAX]]

    def _members(self, level: str) -> Iterator[list[str]]:
        """Yield the usable nodes of every domain of a level in which a node can get devices."""
        if level == NODE_LEVEL:
            for name in dict.fromkeys([name for able in self._able.values() for name in able]):
                yield [name]
            return
        domains, nodes = dict[Domain, None](), self._fleet.ledger.nodes
        for able in self._able.values():
            for name in able:
                domains.update(dict.fromkeys([domain for domain in nodes[name].domains if domain.level == level]))
        for domain in domains:
            yield sorted([name for names in domain.states.values() for name in names])
