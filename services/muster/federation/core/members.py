"""The clusters of the federation: where each stands, and what it was given."""

import math
from dataclasses import dataclass, field

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.federation import (
    ClusterDrainRequested,
    ClusterPhase,
    ClusterWish,
    Heartbeat,
    MemberState,
)

FREED_OVER_S = 600.0
"""Over so many seconds it is smoothed how many GPUs come free."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A cluster as the settings say. lost_after_s: silent for so long it is given up; 0: never."""

    name: str
    lost_after_s: float = 0.0


@dataclass(slots=True)
class Member:
    """One cluster. jobs: that were routed there and have not ended; milli: their milli-GPUs. came, went: since its last
    summary. The rest as `MemberState` has it.
    """

    name: str
    lost_after_s: float = 0.0
    phase: ClusterPhase = ClusterPhase.ACTIVE
    since: int = 0
    fact: str = ""
    drain: ClusterDrainRequested | None = None
    answered: int = 0
    answered_at: int = 0
    granted_until: int = 0
    confirmed: int = 0
    confirmed_at: int = 0
    returned_at: int = 0
    renewals: tuple[Heartbeat, ...] = ()
    wishes: dict[str, ClusterWish] = field(default_factory=dict)
    jobs: dict[str, None] = field(default_factory=dict)
    milli: int = 0
    came: int = 0
    went: int = 0
    freed_milli_per_s: float = 0.0
    freed_at: int = 0

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

    def stored(self) -> MemberState:
        """As a state fact."""
        return MemberState(
            phase=self.phase,
            since=self.since,
            fact=self.fact,
            drain=self.drain,
            answered=self.answered,
            answered_at=self.answered_at,
            granted_until=self.granted_until,
            confirmed=self.confirmed,
            confirmed_at=self.confirmed_at,
            renewals=self.renewals,
            returned_at=self.returned_at,
            freed_milli_per_s=self.freed_milli_per_s,
            freed_at=self.freed_at,
            wishes=tuple(self.wishes.values()),
        )

    def restore(self, state: MemberState) -> None:
        """Take over what a checkpoint says; the jobs come by themselves."""
        self.move(state.phase, at=state.since, fact=state.fact)
        self.drain = state.drain
        self.answered, self.answered_at, self.granted_until = state.answered, state.answered_at, state.granted_until
        self.confirmed, self.confirmed_at, self.renewals = state.confirmed, state.confirmed_at, state.renewals
        self.freed_milli_per_s, self.freed_at = state.freed_milli_per_s, state.freed_at
        self.returned_at = state.returned_at
        self.wishes = {wish.fact: wish for wish in state.wishes}
