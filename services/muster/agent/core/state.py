"""State of nodes and of unfinished jobs."""

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
        """Record a change by fact `by`."""
        self.changed_at, self.last_fact, self.trace = at, by, ""

    def describe(self, description: NodeJoined) -> None:
        """Set its description, and forget detached devices that it no longer shows."""
        self.description = description
        self.detached = tuple((uuid, mib) for uuid, mib in self.detached if is_shown(description, uuid))

    def attach(self, uuid: str) -> None:
        """Record an attached device."""
        self.detached = tuple((one, mib) for one, mib in self.detached if one != uuid)

    def detach(self, uuid: str, *, memory_mib: int) -> None:
        """Record that a shown device was detached."""
        self.attach(uuid)
        self.detached = (*self.detached, (uuid, memory_mib))

    @property
    def actual(self) -> NodeJoined:
        """Return its description without the detached devices."""
        actual = self.description
        for uuid, memory_mib in self.detached:
            actual = without_device(actual, uuid, memory_mib=memory_mib)
        return actual


@dataclass(slots=True, kw_only=True)
class Attempt(PodsState):
    """The pods of one attempt, from placed to exited."""

    trace: str
    """Trace of its placement."""

    @property
    def works_since(self) -> int:
        """Return since when it works on the job; 0 while it does not."""
        return self.started_at if self.preflight is None else self.opened_at

    @property
    def touched(self) -> tuple[Slot, ...]:
        """Return the slots with present or future pods: a loss there ends the gang."""
        if self.resizing is None:
            return self.slots
        return (*self.slots, *(slot for slot in self.resizing.slots if slot not in self.slots))

    def kept_s(self, spec: JobSpec, *, ran_s: float) -> float:
        """Return the seconds of work that are kept after the attempt ran `ran_s`: up to its newest checkpoint.

        `restart_s` of a resumed run is no work.
        """
        if not self.checkpointed_at or spec.checkpointing is None:
            return self.resumed_s
        restart_s = spec.checkpointing.restart_s if self.resumed_s else 0.0
        at_s = min(seconds_between(self.works_since, self.checkpointed_at), ran_s)
        return self.resumed_s + max(0.0, at_s - restart_s)


@dataclass(slots=True)
class JobRecord:
    """An unfinished job, and its pods until they exited."""

    spec: JobSpec | None = None
    trace: str = ""
    attempt: int = 0
    """The newest placed attempt, 0 for none."""
    pods: Attempt | None = None
    is_over: bool = False
    """Whether it ended while pods remain, which should not happen."""
    kept_s: float = 0.0
    """Work of ended attempts that checkpoints keep, in seconds."""
    origin: WorkloadRef | None = None
    """Object that it represents."""
    lost_after_s: float = 0.0
    """Not 0 if another cluster may be given it while the federation is silent."""
    recorded_pods: PodsState | None = field(default=None, compare=False)
    """Part of a checkpoint that waits for the other part, as `recorded_slots`."""
    recorded_slots: tuple[Slot, ...] = field(default=(), compare=False)


@dataclass(slots=True)
class ScaleRecord:
    """An open decision of the scaler to add or remove a node; `fact` made it."""

    node: str
    group: str
    fact: str
    trace: str
    request_id: str = ""
    """Id of the request to drain a node that is removed."""
    failed: bool = False
    """Whether the node did not come up."""


def slots_by_node(slots: Iterable[Slot]) -> dict[str, list[Slot]]:
    """Group slots by node, in their order."""
    grouped: dict[str, list[Slot]] = {}
    for slot in slots:
        grouped.setdefault(slot.node, []).append(slot)
    return grouped
