"""The cheapest nodes to clear for one task group: whose holds have to go so that so many more replicas fit.

Nodes are taken by least cost per replica gained, from a lazy heap: an estimate from one pass over all nodes as arrays,
made exact on the fleet's books only for the nodes that come to the top. A victim with holds on several nodes frees all
of them, and those nodes are looked at again. Whenever a node would give all that is still lacking, that is one
possible answer; the search goes on without it among the nodes that give less, because a cheap small step may be
followed by a cheaper end (the rule of Gens and Levner, which keeps covering knapsacks within twice the optimum).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from muster.placement.fleet import Fleet
from muster.placement.shapes import Hold, TaskShape
from muster.placement.state import count
from muster.placement.timeline import Change, Nodes, Rows

STEPS_AFTER_ANSWER_MAX = 64
"""Nodes that are still looked at once there is an answer."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Holds that could be taken back together: `order` before `cost` says which victim is rather taken (less is first).

    Holds of different victims are disjoint. Costs are not negative.
    """

    key: str
    holds: tuple[Hold, ...]
    order: tuple[int, ...]
    cost: float


class Trial:
    """A fleet with some victims taken out. Whoever makes one closes it, which puts everything back.

    `tell` and `untell` are called for victims that are taken for good, not for those that are only looked at.
    """

    def __init__(self, fleet: Fleet, *, tell: Callable[[str], None], untell: Callable[[str], None]) -> None:
        self.fleet = fleet
        self.taken: dict[str, Victim] = {}
        self._told: set[str] = set()
        self._tell, self._untell = tell, untell

    def take(self, victim: Victim, *, is_told: bool = True) -> None:
        """Withdraw the victim's holds."""
        for hold in victim.holds:
            self.fleet.withdraw(hold)
        self.taken[victim.key] = victim
        if is_told:
            self._told.add(victim.key)
            self._tell(victim.key)

    def put_back(self, victim: Victim) -> None:
        """Hold again what the victim held."""
        for hold in victim.holds:
            self.fleet.hold(hold)
        del self.taken[victim.key]
        if victim.key in self._told:
            self._told.remove(victim.key)
            self._untell(victim.key)

    def close(self) -> None:
        """Put everybody back, the last taken first."""
        for victim in reversed(list(self.taken.values())):
            self.put_back(victim)

    def room(self, name: str, shape: TaskShape) -> int:
        """Replicas that fit on a node as it is now in the trial."""
        node = self.fleet.ledger.nodes.get(name)
        return 0 if node is None or node.state is None else count(node.state.key, shape)


@dataclass(frozen=True, slots=True)
class _Step:
    """Victims whose leaving gives `gain` replicas; found when `lacking` were lacking and the node was at `stamp`."""

    victims: tuple[Victim, ...]
    cost: float
    gain: int
    stamp: int
    lacking: int


class Cheapest:
    """The search for one shape on some nodes. `may_take` is asked for a victim just before it is counted on."""

    def __init__(
        self, trial: Trial, shape: TaskShape, names: Iterable[str], *, may_take: Callable[[str], bool]
    ) -> None:
        self._trial = trial
        self._shape = shape
        self._names = set(names)
        self._may_take = may_take
        self._on_node: dict[str, list[Victim]] = {}
        self._weights: dict[str, float] = {}
        self._stamps: dict[str, int] = {}
        self._steps: dict[str, _Step] = {}

    def choose(self, victims: Sequence[Victim], lacking: int, nodes: Nodes) -> list[Victim] | None:
        """Victims whose leaving makes room for `lacking` more replicas, or None. The trial is left as it was."""
        estimates = self._estimate(victims, lacking, nodes)
        heap = [(ratio, name) for name, ratio in estimates.items()]
        heapify(heap)
        chosen: list[Victim] = []
        best: list[Victim] | None = None
        best_cost, cost, left = float("inf"), 0.0, STEPS_AFTER_ANSWER_MAX
        while heap and left:
            ratio, name = heappop(heap)
            if cost + ratio * lacking >= best_cost:
                break
            left -= best is not None
            step = self._steps.get(name)
            if step is None or step.stamp != self._stamps.get(name, 0) or step.gain > lacking != step.lacking:
                step = self._steps[name] = self._look(name, lacking)
                if step.gain:
                    heappush(heap, (step.cost / min(step.gain, lacking), name))
            elif step.gain >= lacking:
                if cost + step.cost < best_cost:
                    best, best_cost = [*chosen, *step.victims], cost + step.cost
            elif self._commit(step.victims):
                chosen += step.victims
                cost += step.cost
                lacking -= step.gain
                again = self._look(name, lacking)
                if again.gain:
                    self._steps[name] = again
                    heappush(heap, (again.cost / min(again.gain, lacking), name))
        for victim in reversed(chosen):
            self._trial.put_back(victim)
        return best

    def _commit(self, victims: Sequence[Victim]) -> bool:
        """Take them one after the other, as far as each may still be taken; all or none."""
        for at, victim in enumerate(victims):
            if not self._may_take(victim.key):
                for taken in reversed(victims[:at]):
                    self._trial.put_back(taken)
                return False
            self._trial.take(victim)
        for victim in victims:
            for hold in victim.holds:
                self._stamps[hold.slot.node] = self._stamps.get(hold.slot.node, 0) + 1
        return True

    def _estimate(self, victims: Sequence[Victim], lacking: int, nodes: Nodes) -> dict[str, float]:
        """Cost per replica gained by node, if its victims left in the order of what they cost per GPU."""
        for victim in victims:
            spread = {hold.slot.node for hold in victim.holds} & self._names
            size = sum(len(hold.slot.devices) * hold.slot.gpu_milli for hold in victim.holds)
            self._weights[victim.key] = victim.cost / max(size, 1)
            for name in spread:
                self._on_node.setdefault(name, []).append(victim)
        ranked = sorted(victims, key=self._weight)
        changes, costs = [], []
        for rank, victim in enumerate(ranked, start=1):
            here = [hold for hold in victim.holds if hold.slot.node in self._names and hold.slot.node in nodes.places]
            share = victim.cost / max(len(here), 1)
            changes += [Change(rank, hold) for hold in here]
            costs += [share] * len(here)
        for found in self._on_node.values():
            found.sort(key=self._weight)
        rows = Rows(nodes, changes, start=0)
        cost = np.append(np.array(costs, np.float64), 0.0)[np.where(rows.source < 0, -1, rows.source)]
        room = rows.room(self._shape)
        gain = np.minimum(room - np.repeat(room[rows.begins], rows.lengths), lacking)
        ratio = np.where(gain > 0, rows.running(cost) / np.maximum(gain, 1), np.inf)
        least = np.minimum.reduceat(ratio, rows.begins) if len(rows.begins) else ratio
        return {nodes.names[place]: float(least[place]) for place in np.flatnonzero(np.isfinite(least)).tolist()}

    def _weight(self, victim: Victim) -> tuple[float, tuple[int, ...], str]:
        return self._weights[victim.key], victim.order, victim.key

    def _look(self, name: str, lacking: int) -> _Step:
        """The step of least cost per replica that clearing (a part of) this node makes."""
        trial, shape = self._trial, self._shape
        before = trial.room(name, shape)
        out: list[Victim] = []
        room, best, best_ratio, spent = before, 0, float("inf"), 0.0
        for victim in self._on_node.get(name, ()):
            if victim.key in trial.taken or not self._may_take(victim.key):
                continue
            trial.take(victim, is_told=False)
            out.append(victim)
            spent += victim.cost
            now = trial.room(name, shape)
            if now > room:
                room = now
                ratio = spent / min(room - before, lacking)
                if ratio < best_ratio or not best:
                    best, best_ratio = len(out), ratio
                if room - before >= lacking:
                    break
        while len(out) > best:
            trial.put_back(out.pop())
        kept = self._prune(name, out, before)
        gain = sum(trial.room(other, shape) for other in self._touched(kept))
        for victim in reversed(kept):
            trial.put_back(victim)
        gain -= sum(trial.room(other, shape) for other in self._touched(kept))
        return _Step(tuple(kept), sum(v.cost for v in kept), gain, self._stamps.get(name, 0), lacking)

    def _prune(self, name: str, out: list[Victim], before: int) -> list[Victim]:
        """Put back, the dearest first, whom the room on this node does not need."""
        room = self._trial.room(name, self._shape)
        kept = list(out)
        if room == before:
            return kept
        for victim in sorted(out, key=lambda v: (-v.cost, v.order, v.key)):
            self._trial.put_back(victim)
            if self._trial.room(name, self._shape) < room:
                self._trial.take(victim, is_told=False)
            else:
                kept.remove(victim)
        return kept

    def _touched(self, victims: Sequence[Victim]) -> list[str]:
        return sorted({hold.slot.node for victim in victims for hold in victim.holds} & self._names)
