"""Machines of composable nodes: which node stands on each, also of nodes that left or that may come."""

from collections.abc import Iterable, Iterator

from muster.composer.core.limits import MACHINES_LEFT_MAX
from muster.core import Instant, after
from muster.schemas.facts.fabric import MachineKnown


class Machines:
    """All machines whose devices may be taken for the cluster's.

    node_on: which node stands on a machine, also one that left or may come. left: machines of nodes that left, by
    fabric. young: where no call brought anything since their nodes joined first, and when that was, by fabric.
    """

    def __init__(self, configured: Iterable[tuple[str, str]] = ()) -> None:
        self.node_on: dict[str, str] = dict(configured)
        self._configured = frozenset(self.node_on)
        self.left: dict[str, dict[str, None]] = {}
        self.young: dict[str, dict[str, Instant]] = {}

    def take(self, machine: str, node: str) -> None:
        """The node stands there."""
        if machine:
            self.node_on[machine] = node

    def settle_in(self, machine: str, fabric: str, now: Instant, *, young_s: float) -> None:
        """A node joins there; call it before `take`. What was young for longer than that is young no more."""
        for moments in self.young.values():
            while moments and after(moments[oldest := next(iter(moments))], young_s) < now:
                del moments[oldest]
        self._unleave(machine)
        if machine and machine not in self.node_on:
            self.young.setdefault(fabric, {})[machine] = now

    def abandon(self, machine: str, fabric: str) -> None:
        """Its node left."""
        self.grow_up(machine, fabric)
        if not machine or machine in self._configured:
            return
        left = self.left.setdefault(fabric, {})
        left[machine] = None
        if len(left) > MACHINES_LEFT_MAX:
            oldest = next(iter(left))
            del left[oldest], self.node_on[oldest]

    def grow_up(self, machine: str, fabric: str) -> None:
        """A call may bring a device there: what comes from now on did not stand there before."""
        self.young.get(fabric, {}).pop(machine, None)

    def stored(self, fabric: str) -> Iterator[MachineKnown]:
        """What nodes do not tell of machines, for a checkpoint."""
        for machine in self.left.get(fabric, ()):
            yield MachineKnown(machine=machine, node=self.node_on[machine])
        for machine, moment in self.young.get(fabric, {}).items():
            yield MachineKnown(machine=machine, node=self.node_on[machine], joined_at=moment)

    def load(self, fabric: str, machines: Iterable[MachineKnown]) -> None:
        """As a checkpoint says."""
        for known in machines:
            self.node_on.setdefault(known.machine, known.node)
            if known.joined_at:
                self.young.setdefault(fabric, {})[known.machine] = Instant(known.joined_at)
            else:
                self.left.setdefault(fabric, {})[known.machine] = None

    def _unleave(self, machine: str) -> None:
        for left in self.left.values():
            left.pop(machine, None)
