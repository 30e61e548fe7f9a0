"""Who adds nodes to a cluster and takes them away, and who moves devices: a port, and what does neither."""

from collections.abc import Iterator
from typing import Protocol

from muster.agent.core.cluster import AddNode, NodeEffect, NodeObservation, ProvisionFailedSeen
from muster.core import Instant


class Machines(Protocol):
    """Carries out what concerns nodes. Calls go to the worklist that it was made with."""

    def carry_out(self, effect: NodeEffect) -> None:
        """See `Cluster`."""
        ...

    def acknowledge(self, seen: NodeObservation, at: Instant) -> None:
        """See `Cluster`: every observation of nodes, also those that others made."""
        ...

    def settle(self, now: Instant) -> None:
        """Look at what changed, or whose moment has come."""
        ...

    def observations(self) -> Iterator[NodeObservation]:
        """What is so and not acknowledged; as of the last `settle`."""
        ...

    def scale_of(self, node: str) -> str:
        """The scaler's choice by which this node was added, "" if none."""
        ...

    def next_change(self) -> Instant | None:
        """When `settle` could find something by time alone; a past moment where there is something to tell."""
        ...

    def reset(self) -> None:
        """Another leads."""
        ...


class NoMachines:
    """Implements `Machines` where nodes come and go without Muster: a node that is asked for is seen not to come.

    What a fabric plugs and unplugs is seen at the node itself.
    """

    def __init__(self) -> None:
        self._failed: dict[str, ProvisionFailedSeen] = {}

    def carry_out(self, effect: NodeEffect) -> None:
        """See `Machines`."""
        if isinstance(effect, AddNode):
            reason = f"no MachineSet is named for node group {effect.group}: name it in kubernetes.scaling.names"
            self._failed[effect.scale] = ProvisionFailedSeen(effect.scale, effect.group, effect.node, reason)

    def acknowledge(self, seen: NodeObservation, at: Instant) -> None:  # noqa: ARG002 - the port
        """See `Machines`."""
        if isinstance(seen, ProvisionFailedSeen):
            self._failed.pop(seen.scale, None)

    def settle(self, now: Instant) -> None:
        """See `Machines`."""

    def observations(self) -> Iterator[NodeObservation]:
        """See `Machines`."""
        yield from self._failed.values()

    def scale_of(self, node: str) -> str:  # noqa: ARG002 - the port
        """See `Machines`."""
        return ""

    def next_change(self) -> Instant | None:
        """See `Machines`."""
        return Instant(0) if self._failed else None

    def reset(self) -> None:
        """See `Machines`."""
