"""What the agent remembers of nodes and of jobs that are not over."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.agent.core.devices import is_shown, without_device
from muster.core import Instant, seconds_between
from muster.schemas.facts.job import PodsState
from muster.schemas.facts.node import NodeJoined, NodeState
from muster.schemas.job import JobSpec, Slot, WorkloadRef

NOT_YET = Instant(0)


@dataclass(slots=True)
class NodeRecord(NodeState):
    """A node that joined and did not leave."""

    def moved(self, *, at: Instant, by: str) -> None:
        """Record that fact `by` changed it."""
        self.changed_at, self.last_fact, self.trace = at, by, ""

    def describe(self, description: NodeJoined) -> None:
        """Replace its description, and forget detached devices that the new one does not show."""
        self.description = description
        self.detached = tuple((uuid, mib) for uuid, mib in self.detached if is_shown(description, uuid))

    def attach(self, uuid: str) -> None:
        """Record that a device was attached, perhaps again."""
        self.detached = tuple((one, mib) for one, mib in self.detached if one != uuid)

    def detach(self, uuid: str, *, memory_mib: int) -> None:
        """Record that a device that its description shows was detached."""
        self.attach(uuid)
        self.detached = (*self.detached, (uuid, memory_mib))

    @property
    def actual(self) -> NodeJoined:
        """Its description without the devices that were detached."""
        actual = self.description
        for uuid, memory_mib in self.detached:
            actual = without_device(actual, uuid, memory_mib=memory_mib)
        return actual


@dataclass(slots=True, kw_only=True)
class Attempt(PodsState):
    """One attempt's pods, from placed to exited."""

    trace: str
    """Trace of its placement."""

    @property
    def works_since(self) -> int:
        """Since when it does what the job is for; 0 while it does not."""
        return self.started_at if self.preflight is None else self.opened_at

    @property
    def touched(self) -> tuple[Slot, ...]:
        """Where it has pods, or will have: a loss there ends the gang."""
        if self.resizing is None:
            return self.slots
        return (*self.slots, *(slot for slot in self.resizing.slots if slot not in self.slots))

    def kept_s(self, spec: JobSpec, *, ran_s: float) -> float:
        """Seconds of work that outlive the attempt, which ran `ran_s`: up to its newest checkpoint.

        Coming back is no work: `restart_s` of a resumed run counts for nothing.
        """
        if not self.checkpointed_at or spec.checkpointing is None:
            return self.resumed_s
        restart_s = spec.checkpointing.restart_s if self.resumed_s else 0.0
        at_s = min(seconds_between(self.works_since, self.checkpointed_at), ran_s)
        return self.resumed_s + max(0.0, at_s - restart_s)


@dataclass(slots=True)
class JobRecord:
    """A job that is not over. attempt: the newest that was placed, 0 if none; pods: its pods until they exited.

    is_over: it has its terminal fact while pods are still there, which should not be. kept_s: work of ended attempts
    that checkpoints keep. origin: the object that it stands for. lost_after_s: not 0 if another cluster may be given it
    while the federation is silent. recorded_*: parts of a checkpoint that wait for the other part.
    """

    spec: JobSpec | None = None
    trace: str = ""
    attempt: int = 0
    pods: Attempt | None = None
    is_over: bool = False
    kept_s: float = 0.0
    origin: WorkloadRef | None = None
    lost_after_s: float = 0.0
    recorded_pods: PodsState | None = field(default=None, compare=False)
    recorded_slots: tuple[Slot, ...] = field(default=(), compare=False)


@dataclass(slots=True)
class ScaleRecord:
    """A choice of the scaler to add or remove a node that is not ended. fact: that said so.

    request_id: under which the scheduler is asked to withhold a node that goes. failed: the node did not come.
    """

    node: str
    group: str
    fact: str
    trace: str
    request_id: str = ""
    failed: bool = False


def slots_by_node(slots: Iterable[Slot]) -> dict[str, list[Slot]]:
    """The same slots, in their order, under their nodes."""
    grouped: dict[str, list[Slot]] = {}
    for slot in slots:
        grouped.setdefault(slot.node, []).append(slot)
    return grouped
