"""What the guard is to watch and keep, as its core takes it."""

from dataclasses import dataclass
from enum import StrEnum

from muster.guard.core.limits import MEMORY_FLOOR_MIB, SKEW_FLOOR_MIB

LEVEL_PREFIX = "muster-list-"
"""Of the names of the guard's priority levels and flow schemas."""


class Subjects(StrEnum):
    """Whose requests are held back. Nodes, the control plane and `system:masters` never are: see flow.PRECEDENCE."""

    SERVICE_ACCOUNTS = "service-accounts"
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind whose LISTs are let through `seats` at a time per API server. group: "" is the core group."""

    resource: str = "secrets"
    group: str = ""
    seats: int = 2

    @property
    def title(self) -> str:
        """As permissions say it: "secrets", "jobs.batch"."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def level(self) -> str:
        """Its priority level and flow schema."""
        return f"{LEVEL_PREFIX}{self.title}"


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """See `GuardSettings`. apply: flow control is kept as wanted; else the guard only tells.

    memory_floor_mib, skew_floor_mib: memory, and a difference in memory, below which nobody needs advice.
    """

    kinds: tuple[Kind, ...] = (Kind(),)
    subjects: Subjects = Subjects.SERVICE_ACCOUNTS
    apply: bool = False
    skew_ratio: float = 2.0
    lists_per_minute: float = 30.0
    secrets_per_workload: int = 50
    memory_floor_mib: float = MEMORY_FLOOR_MIB
    skew_floor_mib: float = SKEW_FLOOR_MIB
