"""The port that adds and removes nodes and moves devices, and an implementation without any."""

from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from muster.agent.core.cluster import AddNode, NodeEffect, NodeObservation, ProvisionFailedSeen, WordSeen
from muster.agent.core.kubernetes.views import NodeView, PodView
from muster.core import Instant


@dataclass(frozen=True, slots=True)
class CountedDevices:
    """Attached devices of a node whose kubelet picks."""

    uuids: tuple[str, ...] = ()
    """Uuids of attached GPUs that it has for sure."""
    gone: int = 0
    """Detached GPUs that its capacity may still count."""
    model: str = ""
    """Model of the attached GPUs, for a node that reports none."""


NO_DEVICES = CountedDevices()


class Machines:
    """Carries out effects on nodes. Calls go to its worklist."""

    def carry_out(self, effect: NodeEffect) -> None:
        """Accept an effect."""

    def acknowledge(self, seen: NodeObservation | WordSeen, at: Instant) -> None:
        """Record that the log has an observation of a node, by any observer."""

    def node_seen(self, view: NodeView) -> None:
        """Handle a new state of a node."""

    def plugin_seen(self, view: PodView) -> None:
        """Handle a new state of a pod of a device plugin or its companions."""

    def plugin_gone(self, view: PodView) -> None:
        """Handle a deleted plugin pod."""

    def devices_of(self, node: str, capacity: int) -> CountedDevices:  # noqa: ARG002 - the port
        """Return the known devices of a node whose kubelet picks; `capacity` is its own."""
        return NO_DEVICES

    def node_gone(self, name: str) -> None:
        """Handle a deleted node."""

    def synced(self) -> None:
        """Record that everything was seen."""

    def settle(self, now: Instant) -> None:
        """Evaluate what changed or is due."""

    def observations(self) -> Iterator[NodeObservation | WordSeen]:
        """Yield unacknowledged observations, as of the last `settle`."""
        return iter(())

    def scale_of(self, node: str) -> str:  # noqa: ARG002 - the port
        """Return the scaling decision that added the node, "" for none."""
        return ""

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone; a past time if there is something to report."""
        return None

    def reset(self) -> None:
        """Forget what was seen, because another process leads."""


class NoMachines(Machines):
    """For clusters whose nodes come and go without Muster: an added node is seen to fail.

    Devices that a fabric plugs and unplugs are seen at the node itself.
    """

    def __init__(self) -> None:
        self._failed: dict[str, ProvisionFailedSeen] = {}

    @override
    def carry_out(self, effect: NodeEffect) -> None:
        if isinstance(effect, AddNode):
            reason = f"node group {effect.group} has no MachineSet: set it in kubernetes.scaling.names"
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
