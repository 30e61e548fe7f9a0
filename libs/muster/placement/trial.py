"""Trials of a fleet without some victims' holds, on its own ledger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.placement.fleet import Fleet
from muster.placement.shapes import Hold, TaskShape
from muster.placement.state import NodeState, count


@dataclass(frozen=True, slots=True)
class Victim:
    """Holds that can be preempted together. Victims are preferred by `order`, then by `cost`, less first.

    Holds of different victims are disjoint. Costs are not negative.
    """

    key: str
    holds: tuple[Hold, ...]
    order: tuple[int, ...]
    cost: float


class Trial:
    """A fleet without the holds of some victims. Its creator closes it, which puts everything back.

    `tell` and `untell` are called for taken victims, not for victims that are lifted temporarily.
    """

    def __init__(self, fleet: Fleet, *, tell: Callable[[str], None], untell: Callable[[str], None]) -> None:
        self.fleet = fleet
        self.taken: dict[str, Victim] = {}
        self._lifted: dict[str, list[Hold]] = {}
        self._tell, self._untell = tell, untell

    def take(self, victim: Victim) -> None:
        """Withdraw the victim's holds."""
        for hold in victim.holds:
            self.fleet.withdraw(hold)
        self.taken[victim.key] = victim
        self._tell(victim.key)

    def put_back(self, victim: Victim) -> None:
        """Enter the victim's holds again."""
        for hold in victim.holds:
            self.fleet.hold(hold)
        del self.taken[victim.key]
        self._untell(victim.key)

    def lift(self, victim: Victim, name: str = "") -> None:
        """Withdraw the victim's holds on a node (everywhere) temporarily, without calling `tell`."""
        holds = self._lifted[victim.key] = []
        for hold in victim.holds:
            if not name or hold.slot.node == name:
                self.fleet.withdraw(hold)
                holds.append(hold)

    def drop(self, victim: Victim) -> None:
        """Undo `lift`."""
        for hold in self._lifted.pop(victim.key):
            self.fleet.hold(hold)

    def close(self) -> None:
        """Put all victims back, the last taken first."""
        for holds in reversed(list(self._lifted.values())):
            for hold in holds:
                self.fleet.hold(hold)
        self._lifted.clear()
        for victim in reversed(list(self.taken.values())):
            self.put_back(victim)

    def room(self, name: str, shape: TaskShape) -> int:
        """Return the replicas that fit on a node in the trial."""
        node = self.fleet.ledger.nodes.get(name)
        return 0 if node is None or node.state is None else count(node.state.key, shape)

    def room_on(self, names: Sequence[str], shape: TaskShape) -> int:
        """Return the replicas that fit on several nodes in the trial."""
        nodes, known, total = self.fleet.ledger.nodes, dict[NodeState, int](), 0
        for name in names:
            state = nodes[name].state
            if state is not None:
                room = known.get(state)
                if room is None:
                    room = known[state] = count(state.key, shape)
                total += room
        return total
