"""What those who work on attempts share: the ports, notes for people, which attempts are due, purposes of calls."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.ports import AdoptedPods, AuxiliaryObjects, Manifests
from muster.agent.core.kubernetes.worklist import Due, Purpose, Worklist
from muster.core import Instant

NOTES_MAX = 1000
AttemptKey = tuple[str, int]
"""Job and attempt."""


@dataclass(slots=True)
class Notes:
    """What the shell writes to its log for people, newest last; the oldest go first where nobody reads.

    rolled_back: gangs that could not run as they were placed. vanished: of these, because a pod was gone or moved.
    refused: calls that the API server will not do. orphans: pods of Muster that belong to no attempt.
    """

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=NOTES_MAX))
    rolled_back: int = 0
    refused: int = 0
    orphans: int = 0

    def say(self, line: str) -> None:
        """One line."""
        self.lines.append(line)

    def drain(self) -> list[str]:
        """All lines since the last time."""
        lines = list(self.lines)
        self.lines.clear()
        return lines


class NodesSeen(Protocol):
    """What the gangs ask of the nodes."""

    def is_lost(self, node: str) -> bool:
        """Whether no kubelet there will confirm anything: the node does not answer, or is no more."""
        ...

    def turned_away(self, node: str, now: Instant, *, why: str) -> None:
        """A pod cannot be had there, whatever the books say: nothing new for a while, longer if it happens again."""
        ...

    def gpus(self, node: str) -> int:
        """Of the node, as the log has it, that can be given whole."""
        ...

    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:
        """Of the devices at these places, where the scheduler picks them; () where the kubelet does."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What attempts are worked with."""

    worklist: Worklist
    manifests: Manifests
    auxiliary: AuxiliaryObjects
    adopted: AdoptedPods
    nodes: NodesSeen
    notes: Notes = field(default_factory=Notes)
    due: Due[AttemptKey] = field(default_factory=Due)


@dataclass(frozen=True, slots=True)
class PodPurpose(Purpose):
    """Something is to be done about one pod."""

    pod: PodKey
    number: int = field(default=0, compare=False)
    """`LivePod.number`: of those that have this key in turn, only the one that asked is told."""


@dataclass(frozen=True, slots=True)
class CreatePod(PodPurpose):
    """Make its object."""


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
    """Have it end."""

    grace_s: int | None = field(default=None, compare=False)
    """None: it was not seen, and perhaps never made; what is there is taken away."""
