"""Shared by the parts that work on attempts: ports, messages, due attempts, purposes of calls."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.ports import AdoptedPods, AuxiliaryObjects, Manifests
from muster.agent.core.kubernetes.worklist import Due, Purpose, Worklist
from muster.core import Instant

NOTES_MAX = 1000
AttemptKey = tuple[str, int]
"""Job id and attempt."""


@dataclass(slots=True)
class Notes:
    """Messages for the log, oldest dropped first, and counts: gangs rolled back, calls refused, orphaned pods."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=NOTES_MAX))
    rolled_back: int = 0
    refused: int = 0
    orphans: int = 0

    def say(self, line: str) -> None:
        """Add a message."""
        self.lines.append(line)

    def drain(self) -> list[str]:
        """Return and remove all messages."""
        lines = list(self.lines)
        self.lines.clear()
        return lines


class NodesSeen(Protocol):
    """The part of the nodes that gangs use."""

    def is_lost(self, node: str) -> bool:
        """Return whether no kubelet will confirm an end there: the node is lost or gone."""
        ...

    def turned_away(self, node: str, now: Instant, *, why: str) -> None:
        """Keep new pods off a node that refused one, longer if it happens again soon."""
        ...

    def gpus(self, node: str) -> int:
        """Return the number of whole GPUs of the node in the log."""
        ...

    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:
        """Return the uuids of devices by index, where the scheduler picks them; () where the kubelet does."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """The ports for work on attempts."""

    worklist: Worklist
    manifests: Manifests
    auxiliary: AuxiliaryObjects
    adopted: AdoptedPods
    nodes: NodesSeen
    notes: Notes = field(default_factory=Notes)
    due: Due[AttemptKey] = field(default_factory=Due)


@dataclass(frozen=True, slots=True)
class PodPurpose(Purpose):
    """A call on one pod."""

    pod: PodKey
    number: int = field(default=0, compare=False)
    """`LivePod.number`: tells apart successive pods with this key."""


@dataclass(frozen=True, slots=True)
class CreatePod(PodPurpose):
    """Create its object."""


@dataclass(frozen=True, slots=True)
class ReadPod(PodPurpose):
    """Read the object of this name."""


@dataclass(frozen=True, slots=True)
class BindPod(PodPurpose):
    """Bind it to its node."""


@dataclass(frozen=True, slots=True)
class OpenPodGate(PodPurpose):
    """Let its first step begin."""


@dataclass(frozen=True, slots=True)
class EndPod(PodPurpose):
    """End it."""

    grace_s: int | None = field(default=None, compare=False)
    """None: it was not seen, and maybe never created; an existing object is deleted."""
