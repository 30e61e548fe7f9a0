"""The port between the agent's fold and a cluster, simulated or real.

Effects go in, observations come out, both as values. An effect is named by (job id, attempt), by the scaler's choice,
or by a device, so carrying it out twice does what carrying it out once does. An observation stands until `acknowledge`
says that the log has it: a crash between seeing and telling loses nothing, and what was told is never told again.

A backend that does I/O queues effects in `carry_out` (a `DeletePods` cancels its queued `CreatePods`, so that recovery,
which folds every attempt that ever was, leaves only live ones to be made), works the queue from a sink while its
service leads, and answers `observe` from what its watches brought. A simulated one needs no I/O: it derives
everything from seeds and from the times of facts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.core import NS_PER_S, Instant
from muster.schemas.devices import GPU
from muster.schemas.facts.control import ClusterDescribed
from muster.schemas.facts.job import PodsExited
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.operations import (
    CheckResult,
    ChecksReported,
    ChecksRequested,
    NodeActionEnded,
    NodeActionRequested,
    PreflightPlan,
)
from muster.schemas.job import JobSpec, Slot, WorkloadRef
from muster.schemas.record import FactBody

GRID_NS = 50 * NS_PER_S // 1000
"""Events are seen on this grid, as a watch delivers them in bursts: every batch costs the log a guarded append."""
OBSERVATIONS_MAX = 1000
"""Observations that one call of `observe` gives; the rest comes with the next."""
RESULTS_PER_FACT = 200
"""Of checks that one fact tells, so that long words of so many never exceed what a fact may hold."""


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Make one pod per slot and start them together. at: when the attempt was placed.

    resumed_s: seconds of work that checkpoints of earlier attempts keep; the pods go on from there. origin: the object
    that the job stands for; some make their pods themselves. preflight: what is checked once they are started; then
    the first step waits for `OpenGate`.
    """

    job_id: str
    attempt: int
    at: Instant
    slots: tuple[Slot, ...]
    spec: JobSpec
    trace: str = ""
    resumed_s: float = 0.0
    origin: WorkloadRef | None = None
    preflight: PreflightPlan | None = None


@dataclass(frozen=True, slots=True)
class OpenGate:
    """The attempt passed its checks: the first step of its pods begins. Without checks there is no gate."""

    job_id: str
    attempt: int
    at: Instant


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Tell every pod of the attempt, started or not, to end, and end it after `grace_s` seconds at the latest.

    lost_node: the node whose loss ends the gang, at once; "": a wish. evict: they make way for others, as far as
    disruption budgets allow within the grace.
    """

    job_id: str
    attempt: int
    at: Instant
    lost_node: str = ""
    grace_s: float = 0.0
    evict: bool = False


@dataclass(frozen=True, slots=True)
class ResizePods:
    """Make the attempt run exactly these slots: add the pods that are missing, end the others within `grace_s`."""

    job_id: str
    attempt: int
    at: Instant
    slots: tuple[Slot, ...]
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AddNode:
    """Have a node of this group, under this name. scale: the scaler's choice; at: when it was made."""

    scale: str
    group: str
    node: str
    at: Instant


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Take the node away: since `at` the scheduler withholds it for this choice."""

    scale: str
    node: str
    at: Instant


@dataclass(frozen=True, slots=True)
class CancelScale:
    """The scaler waits for this choice no longer: of adding or removing a node, what is not done stays undone."""

    scale: str


@dataclass(frozen=True, slots=True)
class PlugDevice:
    """The fabric attached a device to the node's machine, and the node will show it. memory_mib: of a memory device."""

    attachment: str
    node: str
    device_uuid: str
    at: Instant
    type: str = GPU
    model: str = ""
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class UnplugDevice:
    """The fabric took the device away. memory_mib: of a memory device."""

    node: str
    device_uuid: str
    at: Instant
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class RecallNode:
    """A checkpoint says that the node was so, or (None) that it was taken away. Only for what has no world beside."""

    node: str
    description: NodeJoined | None


@dataclass(frozen=True, slots=True)
class WorkOnNode:
    """Do something to the node, or check it. at: when it was asked. Once for each node and request."""

    node: str
    request_id: str
    at: Instant
    asked: NodeActionRequested | ChecksRequested


PodsEffect = CreatePods | OpenGate | DeletePods | ResizePods
NodeEffect = AddNode | RemoveNode | CancelScale | PlugDevice | UnplugDevice | RecallNode
Effect = PodsEffect | NodeEffect | WorkOnNode


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The node is there and is so."""

    node: str
    description: NodeJoined


@dataclass(frozen=True, slots=True)
class NodeLostSeen:
    """The node stopped answering; what ran on it is gone."""

    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeReturnedSeen:
    """A lost node answers again."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeLeftSeen:
    """The log knows a node that the cluster has not."""

    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeClosedSeen:
    """Somebody wants nothing new on the node: it is cordoned, or tainted against all. What runs there runs on."""

    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeOpenSeen:
    """A node that the log knows as closed takes jobs again."""

    node: str


@dataclass(frozen=True, slots=True)
class ProvisionFailedSeen:
    """The node that this choice asked for will not come."""

    scale: str
    group: str
    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PodsStartedSeen:
    """Every pod of the attempt runs. device_uuids: per slot, in the slots' order."""

    job_id: str
    attempt: int
    device_uuids: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PodsExitedSeen:
    """No pod of the attempt runs any more."""

    job_id: str
    exited: PodsExited

    @property
    def attempt(self) -> int:
        """Return the number of the attempt."""
        return self.exited.attempt


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """The attempt wrote a checkpoint: it could resume from here."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class PodsResizedSeen:
    """Exactly the pods of the newest resize run. slots: how many."""

    job_id: str
    attempt: int
    slots: int


@dataclass(frozen=True, slots=True)
class ChecksSeen:
    """What the checks before the first step of the attempt found. is_last: nothing more will be found."""

    job_id: str
    attempt: int
    results: tuple[CheckResult, ...] = ()
    is_last: bool = True


def checks_seen(job_id: str, attempt: int, results: Sequence[CheckResult]) -> Iterator[ChecksSeen]:
    """All that was found, in as many parts as facts have to tell it."""
    last = max(0, len(results) - 1) // RESULTS_PER_FACT * RESULTS_PER_FACT
    for first in range(0, last + 1, RESULTS_PER_FACT):
        part = tuple(results[first : first + RESULTS_PER_FACT])
        yield ChecksSeen(job_id, attempt, part, is_last=first == last)


@dataclass(frozen=True, slots=True)
class WorkSeen:
    """What was to be done to the node, or checked on it, has ended."""

    node: str
    request_id: str
    ended: NodeActionEnded | ChecksReported


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What the cluster of this name is made of and can do."""

    cluster: str
    description: ClusterDescribed


@dataclass(frozen=True, slots=True)
class WordSeen:
    """What somebody beside Muster wants, as a fact says it: an autoscaler outside, an object that asks for devices.

    kind, subject, name: of the fact; payload: its body.
    """

    kind: str
    subject: str
    name: str
    payload: FactBody


NodeObservation = (
    NodeSeen | NodeLostSeen | NodeReturnedSeen | NodeLeftSeen | NodeClosedSeen | NodeOpenSeen | ProvisionFailedSeen
)
PodsObservation = PodsStartedSeen | PodsExitedSeen | CheckpointSeen | PodsResizedSeen | ChecksSeen
Observation = ClusterSeen | WordSeen | NodeObservation | PodsObservation | WorkSeen


class Cluster(Protocol):
    """Where pods run. Calls come from one thread, in the log's order, and never block.

    What every implementation keeps: each attempt that was created is seen to exit exactly once, also if it was
    deleted before it started; it is seen to start at most once, and not after it was seen to exit. Checkpoints and
    resizes are seen between start and exit. An end of their own that comes before the pods obeyed a deletion stands.
    Checks of an attempt are seen whole once, after its start, if it was to be checked; without `OpenGate` it then ends
    by nothing but a deletion or a loss. Work on a node is seen to end exactly once, within its limit.
    """

    def carry_out(self, effect: Effect) -> None:
        """Take on an effect; again is no second time. Deleting or resizing what does not exist does nothing.

        Of two resizes the later counts; a deletion counts before any of them. A node that was asked for is seen, or is
        seen not to come; one that was taken away is seen to have left. A node shows a device some time after it was
        plugged, and is seen without it at once when it is unplugged. What this cluster cannot do to a node is seen to
        end as `cannot-run`.
        """
        ...

    def observe(self, now: Instant) -> Sequence[Observation]:
        """What is so at `now` and not acknowledged: cluster, nodes, then oldest first; at most OBSERVATIONS_MAX."""
        ...

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        """The log has it since `at`. Also called for what another leader, or an earlier life of this one, observed."""
        ...

    def next_change(self) -> Instant | None:
        """When `observe` could answer differently by time alone; None if never."""
        ...


def on_grid(moment: Instant) -> Instant:
    """The first moment of the grid that is not before this one."""
    return Instant(-(-moment // GRID_NS) * GRID_NS)
