"""The clusters of the federation: where each stands, and what it was given."""

import math
from dataclasses import dataclass, field

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.federation import (
    ClusterPhase,
    MemberState,
)

FREED_OVER_S = 600.0
"""Over so many seconds it is smoothed how many GPUs come free."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A cluster as the settings say. lost_after_s: silent for so long it is given up; 0: never."""

    name: str
    lost_after_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Member(MemberState):
    """One cluster of the federation."""

    name: str
    lost_after_s: float = 0.0
    jobs: dict[str, None] = field(default_factory=dict)
    """Ids of jobs that were routed there and have not ended."""
    milli: int = 0
    """Milli-GPUs of these jobs."""
    came: int = 0
    """Jobs that were routed there since its last summary."""
    went: int = 0
    """Jobs that ended there since its last summary."""

    @property
    def is_at_home(self) -> bool:
        """Whether nothing has to be remembered of it but what the settings say."""
        told = self.since or self.answered or self.granted_until or self.wishes or self.freed_at
        return self.phase is ClusterPhase.ACTIVE and not told

    def move(self, phase: ClusterPhase, *, at: int, fact: str) -> None:
        """It stands there from now on."""
        self.phase, self.since, self.fact = phase, at, fact

    def free(self, milli: int, *, at: int) -> None:
        """A job ended there, and its GPUs came free."""
        self.freed_milli_per_s = self.freed_rate(at) + milli / FREED_OVER_S
        self.freed_at = at

    def freed_rate(self, now: int) -> float:
        """Milli-GPUs that come free in a second, lately: a sum of ends, each decaying exponentially."""
        return self.freed_milli_per_s * math.exp(-max(0, now - self.freed_at) / NS_PER_S / FREED_OVER_S)

    def grant(self, until: int) -> None:
        """Its jobs may run until then, as far as the federation has to reckon with it."""
        self.granted_until = max(self.granted_until, until)

    def is_silent(self, now: Instant) -> bool:
        """Whether it may be about to be lost: half of that time is over."""
        if not self.lost_after_s or not self.answered_at:
            return False
        return now - self.answered_at > self.lost_after_s * NS_PER_S / 2

    def gives_up_at(self) -> Instant | None:
        """When its jobs may be given to others; None if never."""
        return Instant(self.granted_until) if self.lost_after_s and self.granted_until else None
