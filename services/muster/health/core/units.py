"""A node or a device as health believes it to be."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core import Instant
from muster.health.core.limits import INCIDENTS_MAX
from muster.schemas.facts.health import (
    MARKS_MAX,
    OPEN_MAX,
    FaultMark,
    FaultObserved,
    HealthPhase,
    OpenFault,
    Reported,
    UnitState,
)
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import NodeAction

NEVER = Instant(0)
UnitKey = tuple[str, str]
"""(kind, name): ("node", its name) or ("device", its uuid)."""

SEVERITY = (None, NodeAction.RESET, NodeAction.REBOOT, NodeAction.REPLACE)
"""Repairs, the mildest first; what does not help is followed by the next."""
STRICTNESS = (RunningJobs.FINISH, RunningJobs.MOVE, RunningJobs.REQUEUE)


@dataclass(slots=True)
class Unit:
    """See `UnitState` for what the fields say. maintained: by the service that asked, its request to withhold.

    asked: such requests that are not yet answered. verified: the node that this device is of was checked as a whole.
    """

    kind: str
    name: str
    node: str
    phase: HealthPhase = HealthPhase.HEALTHY
    since: Instant = NEVER
    began_at: Instant = NEVER
    incident: int = 0
    attempt: int = 0
    action: NodeAction | None = None
    work_id: str = ""
    until: Instant = NEVER
    needs_person: bool = False
    needs_checks: bool = False
    because: str = ""
    faults: dict[tuple[str, str], OpenFault] = field(default_factory=dict)
    request_id: str = ""
    running: RunningJobs = RunningJobs.FINISH
    is_withheld: bool = False
    work_done: bool = False
    work_failed: str = ""
    marks: list[FaultMark] = field(default_factory=list)
    incidents: list[Instant] = field(default_factory=list)
    moved_fact: str = ""
    verify_fact: str = ""
    trust: bool = False
    checked_at: Instant = NEVER
    deep_at: Instant = NEVER
    passed: int = 0
    withdrawn_id: str = ""
    crossed: bool = False
    reported: dict[tuple[str, str], Reported] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    maintained: dict[str, str] = field(default_factory=dict)

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
        kept = (self.faults, self.marks, self.incidents, self.asked, self.maintained, self.reported)
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
        self.marks.append(mark)
        del self.marks[:-MARKS_MAX]

    def began(self, at: Instant) -> int:
        """Another illness, or loss; returns by how many more are remembered."""
        before = len(self.incidents)
        self.incidents.append(at)
        del self.incidents[:-INCIDENTS_MAX]
        return len(self.incidents) - before

    def stored(self) -> UnitState:
        """For a checkpoint."""
        return UnitState(
            node=self.node,
            phase=self.phase,
            since=self.since,
            began_at=self.began_at,
            incident=self.incident,
            attempt=self.attempt,
            action=self.action,
            work_id=self.work_id,
            until=self.until,
            needs_person=self.needs_person,
            needs_checks=self.needs_checks,
            because=self.because,
            faults=tuple(self.faults.values()),
            request_id=self.request_id,
            running=self.running,
            is_withheld=self.is_withheld,
            work_done=self.work_done,
            work_failed=self.work_failed,
            marks=tuple(self.marks),
            incidents=tuple(self.incidents),
            moved_fact=self.moved_fact,
            verify_fact=self.verify_fact,
            trust=self.trust,
            checked_at=self.checked_at,
            deep_at=self.deep_at,
            passed=self.passed,
            withdrawn_id=self.withdrawn_id,
            crossed=self.crossed,
            reported=tuple(self.reported.values()),
            asked_by=tuple(self.asked.items()),
            maintained_by=tuple(self.maintained.items()),
        )

    def load(self, stored: UnitState) -> None:
        """As a checkpoint says."""
        for name in ("phase", "incident", "attempt", "action", "work_id", "needs_person", "needs_checks", "because"):
            setattr(self, name, getattr(stored, name))
        for name in ("request_id", "running", "is_withheld", "work_done", "work_failed", "moved_fact", "verify_fact"):
            setattr(self, name, getattr(stored, name))
        for name in ("trust", "node", "passed", "withdrawn_id", "crossed"):
            setattr(self, name, getattr(stored, name))
        self.reported = {(one.code, one.device): one for one in stored.reported}
        self.since, self.began_at, self.until = Instant(stored.since), Instant(stored.began_at), Instant(stored.until)
        self.faults = {(one.told.code, one.told.device): one for one in stored.faults}
        self.marks, self.incidents = list(stored.marks), [Instant(at) for at in stored.incidents]
        self.checked_at, self.deep_at = Instant(stored.checked_at), Instant(stored.deep_at)
        self.asked, self.maintained = dict(stored.asked_by), dict(stored.maintained_by)


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
