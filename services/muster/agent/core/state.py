"""What the agent remembers of nodes and of jobs that are not over."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.agent.core.devices import is_shown, without_device
from muster.core import Instant, seconds_between
from muster.schemas.facts.job import JobResizeRequested, PodsState
from muster.schemas.facts.node import NodeJoined, NodeState
from muster.schemas.facts.operations import PreflightPlan
from muster.schemas.job import JobSpec, Slot, WorkloadRef

NOT_YET = Instant(0)


@dataclass(slots=True)
class NodeRecord:
    """A node as the log has it; description is None for one that pods were placed on and that never joined.

    slots: what runs there, by job. lost_reason: why it is lost, "" while it answers. trace: whose fact moved it last,
    "" once that was told. detached: MiB of devices that it describes and that were taken away since, by uuid.
    leaving: the scaler's choice by which it is being removed, since leaving_at. closed: why it was asked to be
    withheld, "" if it was not; is_withheld: that was answered.
    """

    description: NodeJoined | None = None
    lost: bool = False
    lost_reason: str = ""
    changed_at: Instant = NOT_YET
    losses: int = 0
    last_fact: str = ""
    slots: dict[str, list[Slot]] = field(default_factory=dict)
    trace: str = ""
    detached: dict[str, int] = field(default_factory=dict)
    leaving: str = ""
    leaving_at: Instant = NOT_YET
    closed: str = ""
    is_withheld: bool = False

    @property
    def is_gone(self) -> bool:
        """True when nothing can run there."""
        return self.lost or self.description is None

    def moved(self, *, at: Instant, by: str) -> None:
        """Fact `by` changed it."""
        self.changed_at, self.last_fact, self.trace = at, by, ""

    def describe(self, description: NodeJoined) -> None:
        """It is so; what was detached is told unless the description still shows it."""
        self.description = description
        if self.detached:
            self.detached = {uuid: mib for uuid, mib in self.detached.items() if is_shown(description, uuid)}

    @property
    def actual(self) -> NodeJoined | None:
        """How it is without what was detached."""
        actual = self.description
        for uuid, memory_mib in self.detached.items():
            assert actual is not None, "only a node that joined shows devices"
            actual = without_device(actual, uuid, memory_mib=memory_mib)
        return actual

    def restore(self, state: NodeState) -> None:
        """Take over what a checkpoint says; what runs there comes with the jobs."""
        self.description, self.lost, self.losses = state.description, state.lost, state.losses
        self.lost_reason, self.detached = state.lost_reason, dict(state.detached)
        self.leaving, self.leaving_at = state.leaving, Instant(state.leaving_at)
        self.moved(at=Instant(state.changed_at), by=state.last_fact)
        self.trace = state.trace
        self.closed, self.is_withheld = state.closed, state.is_withheld


@dataclass(slots=True)
class Attempt:
    """One attempt's pods from placed to exited. ending_at: since when they are asked to end, 0 if they are not.

    evict: they make way. last_fact: the newest fact that moved them, which is the cause of what they do next. lost_at:
    when a node was lost while they were ending. resumed_s: work that it began with; checkpointed_at: its own newest
    checkpoint. resizing: the resize under way, asked for at resizing_at; resize_fact: the newest that was asked for, ""
    if none. preflight: what is checked before its first step; is_checked: the log has all results; opened_at: since
    when the first step may begin, 0 while it may not or where nothing is checked.
    """

    number: int
    slots: tuple[Slot, ...]
    trace: str
    placed_at: Instant
    last_fact: str
    started_at: Instant = NOT_YET
    ending_at: Instant = NOT_YET
    grace_s: float = 0.0
    evict: bool = False
    lost_node: str = ""
    lost_at: Instant = NOT_YET
    resumed_s: float = 0.0
    checkpointed_at: Instant = NOT_YET
    resizing: JobResizeRequested | None = None
    resizing_at: Instant = NOT_YET
    resize_fact: str = ""
    preflight: PreflightPlan | None = None
    is_checked: bool = False
    opened_at: Instant = NOT_YET

    @property
    def works_since(self) -> Instant:
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
