"""The composer's state of nodes beyond `muster.cluster.Nodes`: machines, grants, and CPU and memory in use.

Grants mirror the scheduler's rule: a node is released as a whole, with all devices that it shows; a device that it
shows later, or that was drained, is released by itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.cluster import Holds, NodeChange, Nodes
from muster.composer.core.limits import MACHINES_LEFT_MAX
from muster.composer.core.records import Attachment
from muster.core import Instant, after
from muster.schemas.facts.fabric import MachineKnown
from muster.schemas.facts.node import GrantState
from muster.schemas.job import JobSpec, Slot


class Machines:
    """All machines whose devices may belong to the cluster.

    `node_on`: the node on a machine, even one that left or may come. `left`: machines of nodes that left, by fabric.
    `young`: machines without a call since their nodes first joined, and when that was, by fabric.
    """

    def __init__(self, configured: Iterable[tuple[str, str]] = ()) -> None:
        self.node_on: dict[str, str] = dict(configured)
        self._configured = frozenset(self.node_on)
        self.left: dict[str, dict[str, None]] = {}
        self.young: dict[str, dict[str, Instant]] = {}

    def take(self, machine: str, node: str) -> None:
        """Record the node on a machine."""
        if machine:
            self.node_on[machine] = node

    def settle_in(self, machine: str, fabric: str, now: Instant, *, young_s: float) -> None:
        """Record a node's first join, before `take`. Machines that were young for `young_s` no longer are."""
        for moments in self.young.values():
            while moments and after(moments[oldest := next(iter(moments))], young_s) < now:
                del moments[oldest]
        self._unleave(machine)
        if machine and machine not in self.node_on:
            self.young.setdefault(fabric, {})[machine] = now

    def abandon(self, machine: str, fabric: str) -> None:
        """Record that its node left."""
        self.grow_up(machine, fabric)
        if not machine or machine in self._configured:
            return
        left = self.left.setdefault(fabric, {})
        left[machine] = None
        if len(left) > MACHINES_LEFT_MAX:
            oldest = next(iter(left))
            del left[oldest], self.node_on[oldest]

    def grow_up(self, machine: str, fabric: str) -> None:
        """Record that a call may attach a device: later devices were not found there."""
        self.young.get(fabric, {}).pop(machine, None)

    def stored(self, fabric: str) -> Iterator[MachineKnown]:
        """Yield what only the composer knows of machines, for a checkpoint."""
        for machine in self.left.get(fabric, ()):
            yield MachineKnown(machine=machine, node=self.node_on[machine])
        for machine, moment in self.young.get(fabric, {}).items():
            yield MachineKnown(machine=machine, node=self.node_on[machine], joined_at=moment)

    def load(self, fabric: str, machines: Iterable[MachineKnown]) -> None:
        """Restore from a checkpoint."""
        for known in machines:
            self.node_on.setdefault(known.machine, known.node)
            if known.joined_at:
                self.young.setdefault(fabric, {})[known.machine] = Instant(known.joined_at)
            else:
                self.left.setdefault(fabric, {})[known.machine] = None

    def _unleave(self, machine: str) -> None:
        for left in self.left.values():
            left.pop(machine, None)


@dataclass(slots=True)
class NodeGrant:
    """The scheduler's grant of a whole node."""

    is_released: bool = False
    is_withheld: bool = False


class Grants:
    """Grants of nodes and devices, including nodes that left."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes: dict[str, NodeGrant] = {}
        """Grants by node. Read-only."""
        self.unreleased: set[str] = set()
        """UUIDs of devices that are not released though their node is. Read-only."""
        self._shown = nodes

    def change_node(self, change: NodeChange) -> None:
        """Handle a change of a node; call it after `Nodes` folded it."""
        grant, before, after = self._node(change.name), change.before, change.after
        if before is None or after is None or before.is_lost or after.is_lost:
            grant.is_released = False
        if after is None:
            grant.is_withheld = False
        self.unreleased.difference_update(uuid for uuid in change.gone if uuid not in self._shown.node_of)
        if grant.is_released:
            self.unreleased.update(change.added)

    def release_node(self, name: str) -> None:
        """Record that jobs may use the node."""
        grant = self._node(name)
        grant.is_released, grant.is_withheld = True, False

    def withhold_node(self, name: str) -> None:
        """Record that jobs may not use the node until it is released."""
        self._node(name).is_withheld = True

    def release_device(self, uuid: str) -> None:
        """Record that jobs may use the device."""
        self.unreleased.discard(uuid)

    def withhold_device(self, uuid: str) -> None:
        """Record that jobs may not use the device until it is released."""
        self.unreleased.add(uuid)

    def load(self, kind: str, name: str, state: GrantState) -> None:
        """Restore from a checkpoint."""
        if kind == "node":
            self.nodes[name] = NodeGrant(state.released, state.withheld)
        elif state.released and not state.withheld:
            self.unreleased.discard(name)
        else:
            self.unreleased.add(name)

    def is_node_usable(self, name: str) -> bool:
        """Return whether jobs may use the node as a whole."""
        grant = self.nodes.get(name)
        return grant is not None and grant.is_released and not grant.is_withheld

    def is_device_usable(self, uuid: str) -> bool:
        """Return whether a node shows the device and jobs may use it."""
        node = self._shown.node_of.get(uuid)
        return node is not None and uuid not in self.unreleased and self.is_node_usable(node)

    def _node(self, name: str) -> NodeGrant:
        return self.nodes.setdefault(name, NodeGrant())


Amounts = tuple[int, int]
"""CPU in thousandths of a core, and memory in MiB."""


class HostResources:
    """Requested CPU and memory of one replica of each live job, by task group."""

    def __init__(self) -> None:
        self._amounts: dict[str, tuple[Amounts, ...]] = {}
        self._shapes: dict[tuple[Amounts, ...], tuple[Amounts, ...]] = {}

    def describe(self, job_id: str, spec: JobSpec) -> None:
        """Remember the job's request."""
        amounts = tuple((group.cpu_milli, group.memory_mib) for group in spec.task_groups)
        self._amounts[job_id] = self._shapes.setdefault(amounts, amounts)

    def forget(self, job_id: str) -> None:
        """Forget a finished job."""
        self._amounts.pop(job_id, None)

    def held_by(self, slots: Mapping[str, Sequence[Slot]]) -> Amounts:
        """Return what slots hold together. slots: by job id."""
        cpu_milli = memory_mib = 0
        for job_id, own in slots.items():
            groups = self._amounts.get(job_id, ())
            for slot in own:
                if slot.group < len(groups):
                    cpu_milli += groups[slot.group][0]
                    memory_mib += groups[slot.group][1]
        return cpu_milli, memory_mib


class Hosts:
    """Nodes and machines of devices, with grants and held devices; written by the fold."""

    def __init__(self, machines: Iterable[tuple[str, str]]) -> None:
        self.nodes = Nodes()
        self.grants = Grants(self.nodes)
        self.machines = Machines(machines)
        self.holds = Holds()
        self.host_resources = HostResources()

    def node_of(self, attachment: Attachment) -> str:
        """Return the node on the machine of an attachment; "" if there never was one."""
        return self.machines.node_on.get(attachment.machine, attachment.requested.node)

    def holders(self, attachment: Attachment) -> tuple[str, ...]:
        """Return the jobs that hold the device.

        Where the kubelet picks devices: also jobs whose devices are unknown.
        """
        if not attachment.is_gpu:
            return self.holds.jobs_on(self.node_of(attachment))
        name = self.nodes.node_of.get(attachment.device_uuid)
        if name is None:
            return ()
        return self.holds.device_holders(name, attachment.device_uuid, self.nodes[name].shown).all

    def is_shown(self, attachment: Attachment) -> bool:
        """Return whether the node shows the device."""
        if attachment.is_gpu:
            return attachment.device_uuid in self.nodes.node_of
        description = self.nodes.description(self.node_of(attachment))
        return description is not None and attachment.device_uuid in description.memory_uuids

    def is_usable(self, attachment: Attachment) -> bool:
        """Return whether jobs may use the device."""
        return self.grants.is_device_usable(attachment.device_uuid) if attachment.is_gpu else self.is_shown(attachment)
