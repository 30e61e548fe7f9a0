"""What the agent remembers of nodes and of jobs that are not over."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core import Instant
from muster.schemas.facts.job import PodsState
from muster.schemas.facts.node import NodeJoined, NodeState
from muster.schemas.job import JobSpec, Slot

NOT_YET = Instant(0)


@dataclass(slots=True)
class NodeRecord:
    """A node as the log has it; description is None for one that pods were placed on and that never joined.

    slots: what runs there, by job. lost_reason: why it is lost, "" while it answers.
    """

    description: NodeJoined | None = None
    lost: bool = False
    lost_reason: str = ""
    changed_at: Instant = NOT_YET
    losses: int = 0
    last_fact: str = ""
    slots: dict[str, list[Slot]] = field(default_factory=dict)

    @property
    def is_gone(self) -> bool:
        """True when nothing can run there."""
        return self.lost or self.description is None

    def moved(self, *, at: Instant, by: str) -> None:
        """Fact `by` changed it."""
        self.changed_at, self.last_fact = at, by

    def restore(self, state: NodeState) -> None:
        """Take over what a checkpoint says; what runs there comes with the jobs."""
        self.description, self.lost, self.losses = state.description, state.lost, state.losses
        self.lost_reason = state.lost_reason
        self.moved(at=Instant(state.changed_at), by=state.last_fact)


@dataclass(slots=True)
class Attempt:
    """One attempt's pods from placed to exited. ending_at: since when they are asked to end, 0 if they are not.

    last_fact: the newest fact that moved them, which is the cause of what they do next.
    """

    number: int
    slots: tuple[Slot, ...]
    trace: str
    placed_at: Instant
    last_fact: str
    started_at: Instant = NOT_YET
    ending_at: Instant = NOT_YET
    lost_node: str = ""


@dataclass(slots=True)
class JobRecord:
    """A job that is not over. attempt: the newest that was placed, 0 if none; pods: its pods until they exited.

    is_over: it has its terminal fact while pods are still there, which should not be. recorded_*: parts of a
    checkpoint that wait for the other part.
    """

    spec: JobSpec | None = None
    trace: str = ""
    attempt: int = 0
    pods: Attempt | None = None
    is_over: bool = False
    recorded_pods: PodsState | None = field(default=None, compare=False)
    recorded_slots: tuple[Slot, ...] = field(default=(), compare=False)


def slots_by_node(slots: Iterable[Slot]) -> dict[str, list[Slot]]:
    """The same slots, in their order, under their nodes."""
    grouped: dict[str, list[Slot]] = {}
    for slot in slots:
        grouped.setdefault(slot.node, []).append(slot)
    return grouped
