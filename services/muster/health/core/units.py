"""A node or a device as health believes it to be."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.core import Instant
from muster.health.core.limits import INCIDENTS_MAX
from muster.schemas.facts.health import (
    MARKS_MAX,
    OPEN_MAX,
    FaultMark,
    FaultObserved,
    HealthPhase,
    OpenFault,
    UnitState,
)
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import NodeAction

UnitKey = tuple[str, str]
"""(kind, name): ("node", its name) or ("device", its uuid)."""

SEVERITY = (None, NodeAction.RESET, NodeAction.REBOOT, NodeAction.REPLACE)
"""Repairs, the mildest first; what does not help is followed by the next."""
STRICTNESS = (RunningJobs.FINISH, RunningJobs.MOVE, RunningJobs.REQUEUE)


@dataclass(slots=True, kw_only=True)
class Unit(UnitState):
    """A node or a device."""

    kind: str
    name: str

    @property
    def key(self) -> UnitKey:
        """Under which it is kept."""
        return self.kind, self.name

    @property
    def is_healthy(self) -> bool:
        """Whether health has nothing against its use."""
        return self.phase is HealthPhase.HEALTHY

    @property
    def grave(self) -> list[OpenFault]:
        """Faults that keep it from jobs."""
        return [one for one in self.faults.values() if one.told.fault_class.is_hardware and not one.told.store_only]

    @property
    def wanted_running(self) -> RunningJobs:
        """The strictest treatment of jobs that one of its faults asks for."""
        return max((one.told.running for one in self.grave), key=STRICTNESS.index, default=RunningJobs.FINISH)

    @property
    def wanted_action(self) -> NodeAction | None:
        """The most thorough repair that one of its faults asks for."""
        return max((one.told.action for one in self.grave), key=SEVERITY.index, default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be remembered of it."""
        kept = (self.faults, self.marks, self.incidents, self.asked_by, self.maintained_by, self.reported)
        return self.is_healthy and not any(kept) and not (self.incident or self.checked_at or self.deep_at)

    def observe(self, told: FaultObserved, *, at: Instant, fact: str) -> None:
        """A fault was told, or told again: the newest word counts, the first moment stays."""
        key = (told.code, told.device)
        known = self.faults.get(key)
        if known is None and len(self.faults) >= OPEN_MAX:
            return
        since = known.since if known is not None else at
        count = told.count + (known.count if known is not None else 0)
        self.faults[key] = OpenFault(told=told, since=since, seen_at=at, count=count, fact=fact)
        if told.fault_class.is_hardware and not told.code.startswith("exporter-"):
            self.needs_checks = True

    def mark(self, mark: FaultMark) -> None:
        """Remember an observation; the oldest ones go."""
        self.marks = (*self.marks, mark)[-MARKS_MAX:]

    def began(self, at: Instant) -> int:
        """Another illness, or loss; returns by how many more are remembered."""
        before = len(self.incidents)
        self.incidents = (*self.incidents, at)[-INCIDENTS_MAX:]
        return len(self.incidents) - before


def worst(units: Iterable[Unit]) -> Unit | None:
    """The one that is furthest from use: needing a person first, then by how early in its way back it is."""
    ranks = {HealthPhase.QUARANTINED: 4, HealthPhase.SUSPECT: 3, HealthPhase.REPAIRING: 2, HealthPhase.VERIFYING: 1}
    ill = [unit for unit in units if not unit.is_healthy]
    return max(ill, key=lambda unit: (unit.needs_person, ranks[unit.phase], unit.kind, unit.name), default=None)


def mark_of(told: FaultObserved, device: str, at: Instant) -> FaultMark:
    """What is remembered of an observation."""
    return FaultMark(
        code=told.code,
        fault_class=told.fault_class,
        device=device,
        at=told.at or at,
        count=told.count,
        teams=told.teams,
        store_only=told.store_only,
    )
