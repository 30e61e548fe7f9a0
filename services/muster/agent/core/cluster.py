"""The port between the agent's fold and a cluster, simulated or real.

Effects go in, observations come out, both as values. An effect is named by (job id, attempt), by the scaler's decision,
or by a device, so repeating it changes nothing. An observation is returned until `acknowledge` says that the log has
it: a crash between observing and appending loses nothing, and nothing in the log is emitted again. A backend with I/O
queues effects in `carry_out` (a `DeletePods` cancels its queued `CreatePods`, so that recovery, which folds all past
attempts, creates only live ones), works the queue from a sink while its service leads, and answers `observe` from its
watches. A simulated one needs no I/O: it derives everything from seeds and the times of facts.
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
"""Grid of observation times, as watches deliver in bursts: every batch costs the log a guarded append."""
OBSERVATIONS_MAX = 1000
"""Observations returned by one call of `observe`; the rest follow with the next."""
RESULTS_PER_FACT = 200
"""Check results in one fact, so that long details never exceed its size limit."""


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create one pod per slot and start them together. `at` is the time of the placement."""

    job_id: str
    attempt: int
    at: Instant
    slots: tuple[Slot, ...]
    spec: JobSpec
    trace: str = ""
    resumed_s: float = 0.0
    """Seconds of work that checkpoints of earlier attempts keep; the pods resume from there."""
    origin: WorkloadRef | None = None
    """Object that the job represents; some kinds create their pods themselves."""
    preflight: PreflightPlan | None = None
    """Checks after the start; then the first step waits for `OpenGate`."""


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Begin the first step of an attempt that passed its checks. Without checks there is no gate."""

    job_id: str
    attempt: int
    at: Instant


@dataclass(frozen=True, slots=True)
class DeletePods:
    """End every pod of the attempt, started or not, after `grace_s` seconds at the latest."""

    job_id: str
    attempt: int
    at: Instant
    lost_node: str = ""
    """Node whose loss ends the gang at once; "" for a request."""
    grace_s: float = 0.0
    evict: bool = False
    """For a preemption: respect disruption budgets within the grace."""


@dataclass(frozen=True, slots=True)
class ResizePods:
    """Run exactly these slots: add the missing pods, end the others within `grace_s`."""

    job_id: str
    attempt: int
    at: Instant
    slots: tuple[Slot, ...]
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AddNode:
    """Add a node of this group under this name. `scale` is the scaler's decision, made at `at`."""

    scale: str
    group: str
    node: str
    at: Instant


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Remove the node, which the scheduler has drained for this decision since `at`."""

    scale: str
    node: str
    at: Instant


@dataclass(frozen=True, slots=True)
class CancelScale:
    """Cancel what remains of a decision of the scaler to add or remove a node."""

    scale: str


@dataclass(frozen=True, slots=True)
class PlugDevice:
    """Show a device that the fabric attached to the node's machine; `memory_mib` is that of a memory device."""

    attachment: str
    node: str
    device_uuid: str
    at: Instant
    type: str = GPU
    model: str = ""
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class UnplugDevice:
    """Remove a device that the fabric detached; `memory_mib` is that of a memory device."""

    node: str
    device_uuid: str
    at: Instant
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class RecallNode:
    """Restore a node from a checkpoint, or (None) its removal. Only simulated nodes need it."""

    node: str
    description: NodeJoined | None


@dataclass(frozen=True, slots=True)
class WorkOnNode:
    """Check or work on the node, once for each node and request. `at` is the time of the request."""

    node: str
    request_id: str
    at: Instant
    asked: NodeActionRequested | ChecksRequested


PodsEffect = CreatePods | OpenGate | DeletePods | ResizePods
NodeEffect = AddNode | RemoveNode | CancelScale | PlugDevice | UnplugDevice | RecallNode
Effect = PodsEffect | NodeEffect | WorkOnNode


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The node is present, as described."""

    node: str
    description: NodeJoined


@dataclass(frozen=True, slots=True)
class NodeLostSeen:
    """The node stopped answering; its pods are gone."""

    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeReturnedSeen:
    """A lost node answers again."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeLeftSeen:
    """A node in the log is absent from the cluster."""

    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeClosedSeen:
    """The node is cordoned, or tainted against all pods; running pods continue."""

    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeOpenSeen:
    """A node that is closed in the log is schedulable again."""

    node: str


@dataclass(frozen=True, slots=True)
class ProvisionFailedSeen:
    """The node of this scaling decision will not come up."""

    scale: str
    group: str
    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PodsStartedSeen:
    """Every pod of the attempt runs. `device_uuids` has an entry per slot."""

    job_id: str
    attempt: int
    device_uuids: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PodsExitedSeen:
    """No pod of the attempt runs anymore."""

    job_id: str
    exited: PodsExited

    @property
    def attempt(self) -> int:
        """Return the number of the attempt."""
        return self.exited.attempt


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """The attempt wrote a checkpoint from which it could resume."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class PodsResizedSeen:
    """Exactly the pods of the newest resize run; `slots` is their number."""

    job_id: str
    attempt: int
    slots: int


@dataclass(frozen=True, slots=True)
class ChecksSeen:
    """Results of the checks before the first step; `is_last`: no more follow."""

    job_id: str
    attempt: int
    results: tuple[CheckResult, ...] = ()
    is_last: bool = True


def checks_seen(job_id: str, attempt: int, results: Sequence[CheckResult]) -> Iterator[ChecksSeen]:
    """Yield all results, in parts that fit into facts."""
    last = max(0, len(results) - 1) // RESULTS_PER_FACT * RESULTS_PER_FACT
    for first in range(0, last + 1, RESULTS_PER_FACT):
        part = tuple(results[first : first + RESULTS_PER_FACT])
        yield ChecksSeen(job_id, attempt, part, is_last=first == last)


@dataclass(frozen=True, slots=True)
class WorkSeen:
    """An action or checks on the node have ended."""

    node: str
    request_id: str
    ended: NodeActionEnded | ChecksReported


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """Description and capabilities of the cluster."""

    cluster: str
    description: ClusterDescribed


@dataclass(frozen=True, slots=True)
class WordSeen:
    """A request from outside Muster as a fact: of an external autoscaler, or of an object that asks for devices."""

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
    """Backend that runs pods. Calls come from one thread, in the log's order, and never block.

    Every implementation guarantees: each created attempt is seen to exit exactly once, even if it was deleted before
    its start; it is seen to start at most once, and not after its exit. Checkpoints and resizes are seen between start
    and exit. Pods that end by themselves before they obey a deletion keep their own outcome. An attempt with a plan of
    checks reports all results once, after its start; without `OpenGate` it then ends only by a deletion or a loss. Work
    on a node is seen to end exactly once, within its limit.
    """

    def carry_out(self, effect: Effect) -> None:
        """Accept an effect; repeating it changes nothing. Deleting or resizing what does not exist does nothing.

        The later of two resizes counts; a deletion counts before any resize. An added node is seen, or seen to fail; a
        removed one is seen to leave. A node shows a device some time after it was plugged, and stops at once when it is
        unplugged. Work on a node that the cluster does not support ends as `cannot-run`.
        """
        ...

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Return unacknowledged observations at `now`: cluster, nodes, then oldest first; at most OBSERVATIONS_MAX."""
        ...

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        """Record that the log has it since `at`, also what another leader or an earlier process observed."""
        ...

    def next_change(self) -> Instant | None:
        """Return when `observe` could answer differently by time alone; None if never."""
        ...


def on_grid(moment: Instant) -> Instant:
    """Round up to the grid."""
    return Instant(-(-moment // GRID_NS) * GRID_NS)
