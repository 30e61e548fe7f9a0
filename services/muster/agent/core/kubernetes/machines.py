"""Who adds nodes to a cluster and takes them away, and who moves devices: a port, and what does neither."""

from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from muster.agent.core.cluster import AddNode, NodeEffect, NodeObservation, ProvisionFailedSeen, WordSeen
from muster.agent.core.kubernetes.views import NodeView, PodView
from muster.core import Instant


@dataclass(frozen=True, slots=True)
class CountedDevices:
    """Of a node whose kubelet picks: uuids of attached GPUs that it surely has; gone: how many its capacity may count
    that it has not any more. model: of the attached ones, for a node that says nothing of it.
    """

    uuids: tuple[str, ...] = ()
    gone: int = 0
    model: str = ""


NO_DEVICES = CountedDevices()


class Machines:
    """Carries out what concerns nodes. Calls go to the worklist that it was made with."""

    def carry_out(self, effect: NodeEffect) -> None:
        """See `Cluster`."""

    def acknowledge(self, seen: NodeObservation | WordSeen, at: Instant) -> None:
        """See `Cluster`: every observation of nodes, also those that others made."""

    def node_seen(self, view: NodeView) -> None:
        """A node is so."""

    def plugin_seen(self, view: PodView) -> None:
        """A pod of a device plugin, or of what goes with it, is so."""

    def plugin_gone(self, view: PodView) -> None:
        """It is no more."""

    def devices_of(self, node: str, capacity: int) -> CountedDevices:  # noqa: ARG002 - the port
        """What is known of the devices of a node whose kubelet picks. capacity: that it has by itself."""
        return NO_DEVICES

    def node_gone(self, name: str) -> None:
        """A node is no more."""

    def synced(self) -> None:
        """All that there is was seen."""

    def settle(self, now: Instant) -> None:
        """Look at what changed, or whose moment has come."""

    def observations(self) -> Iterator[NodeObservation | WordSeen]:
        """What is so and not acknowledged; as of the last `settle`."""
        return iter(())

    def scale_of(self, node: str) -> str:  # noqa: ARG002 - the port
        """The scaler's choice by which this node was added, "" if none."""
        return ""

    def next_change(self) -> Instant | None:
        """When `settle` could find something by time alone; a past moment where there is something to tell."""
        return None

    def reset(self) -> None:
        """Another leads."""


class NoMachines(Machines):
    """Where nodes come and go without Muster: a node that is asked for is seen not to come.

    What a fabric plugs and unplugs is seen at the node itself.
    """

    def __init__(self) -> None:
        self._failed: dict[str, ProvisionFailedSeen] = {}

    @override
    def carry_out(self, effect: NodeEffect) -> None:
        if isinstance(effect, AddNode):
            reason = f"no MachineSet is named for node group {effect.group}: name it in kubernetes.scaling.names"
            self._failed[effect.scale] = ProvisionFailedSeen(effect.scale, effect.group, effect.node, reason)

    @override
    def acknowledge(self, seen: NodeObservation | WordSeen, at: Instant) -> None:
        if isinstance(seen, ProvisionFailedSeen):
            self._failed.pop(seen.scale, None)

    @override
    def observations(self) -> Iterator[NodeObservation | WordSeen]:
        yield from self._failed.values()

    @override
    def next_change(self) -> Instant | None:
        return Instant(0) if self._failed else None
