"""Where more devices bring most: the steps of all nodes, the cheapest first, and the domains that need fewest.

Nodes in the same state that can get as many devices are looked at together, and only as far as steps are asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from muster.placement import NODE_LEVEL, GroupRequest, TaskShape
from muster.placement.state import NodeState, count
from muster.placement.topology import Domain
from muster.scaler.core import limits
from muster.scaler.core.able import Source
from muster.scaler.core.growth import Growth, Step, steps_of
from muster.scaler.core.state import State


@dataclass(frozen=True, slots=True)
class _Ladder:
    """Nodes in the same state, which can get as many devices each, and what more of them would give."""

    source: Source
    busy_w: float
    attach_s: float
    cpu_milli: int
    steps: Sequence[tuple[int, int]]
    names: list[str]

    def step(self, at: int, number: int) -> Step:
        """One step of one of these nodes."""
        devices, gain = self.steps[number]
        rate = devices / gain
        return Step(
            rate, rate * self.busy_w, self.attach_s, self.cpu_milli, self.names[at], number, devices, gain, self.source
        )


_Rung = tuple[Step, int, _Ladder]


class Steps:
    """able: nodes that can get devices, and how many, by source. within: only these nodes; None: all."""

    def __init__(self, state: State, able: Mapping[Source, Mapping[str, int]]) -> None:
        self._state = state
        self._fleet = state.fleet
        self._able = able

    def cheapest(
        self,
        shape: TaskShape,
        replicas: int,
        within: Sequence[str] | None,
        left: Mapping[Source, int],
        growth: Growth,
    ) -> list[Step] | None:
        """The cheapest steps that make room for so many replicas; None if there are not enough."""
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
        """Steps that any of these groups would take, each node once: all that it can get, for the largest that can."""
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
        """Steps of all nodes, the cheapest first: nodes in the same state are looked at together."""
        heap = list[_Rung]()
        for source, alike in self._alike(within, growth).items():
            model = self._state.config.model(source.model)
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
        """Nodes that can get devices, by source, state and how many they can get."""
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
        """Domains of a level in which a group finds room with devices, by their nodes, those first that need fewest."""
        nothing = Growth(self._fleet)
        costs = list[tuple[int, float, list[str]]]()
        for names in self._members(level):
            steps = self.cheapest(group.shape, group.replicas_least, names, left, nothing)
            if steps is not None:
                costs.append((sum(step.devices for step in steps), sum(step.watts for step in steps), names))
        return [names for *_, names in sorted(costs)[: limits.DOMAINS_MAX]]

    def _members(self, level: str) -> Iterator[list[str]]:
        """The usable nodes of every domain of a level in which a node can get devices."""
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
