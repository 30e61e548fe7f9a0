"""Configuration of the guard's core."""

from dataclasses import dataclass
from enum import StrEnum

from muster.guard.core.limits import MEMORY_FLOOR_MIB, SKEW_FLOOR_MIB

LEVEL_PREFIX = "muster-list-"
"""Prefix of the names of the guard's priority levels and flow schemas."""


class Subjects(StrEnum):
    """Users whose requests are limited; never nodes, the control plane or `system:masters` (flow.PRECEDENCE)."""

    SERVICE_ACCOUNTS = "service-accounts"
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of which each API server executes at most `seats` LISTs at a time; `group` "" is the core group."""

    resource: str = "secrets"
    group: str = ""
    seats: int = 2

    @property
    def title(self) -> str:
        """Return the resource as in permissions: "secrets", "jobs.batch"."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def level(self) -> str:
        """Return the name of its priority level and flow schema."""
        return f"{LEVEL_PREFIX}{self.title}"


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """See `GuardSettings`. Without `apply` the guard only reports.

    Below `memory_floor_mib` of memory, or `skew_floor_mib` of difference, no advice is given.
    """

    kinds: tuple[Kind, ...] = (Kind(),)
    subjects: Subjects = Subjects.SERVICE_ACCOUNTS
    apply: bool = False
    skew_ratio: float = 2.0
    lists_per_minute: float = 30.0
    secrets_per_workload: int = 50
    memory_floor_mib: float = MEMORY_FLOOR_MIB
    skew_floor_mib: float = SKEW_FLOOR_MIB
