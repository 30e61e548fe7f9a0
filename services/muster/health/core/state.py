"""The state of health: nodes and devices with their faults, owners of jobs, and indexes that bound each decision."""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.cluster import Holds, Nodes
from muster.core import Draft, Instant
from muster.health.core.brake import Brake
from muster.health.core.config import OBSERVE, OPT_OUT_LABEL, HealthConfig
from muster.health.core.limits import HISTORY_MAX, INCIDENTS_MAX, JOBS_MAX
from muster.health.core.rules import RuleTable
from muster.health.core.signals import FaultSignals
from muster.schemas.conditions import EndedIllness
from muster.schemas.facts.health import (
    MARKS_MAX,
    OPEN_MAX,
    TOLD_MAX,
    FaultClass,
    FaultMark,
    FaultObserved,
    HealthPhase,
    OpenFault,
    OwnerToldState,
    UnitState,
)
from muster.schemas.facts.node import GrantState, RunningJobs, WithholdWithdrawn
from muster.schemas.facts.operations import NodeAction

UnitKey = tuple[str, str]
"""(kind, name): ("node", its name) or ("device", its uuid)."""

SEVERITY = (None, NodeAction.RESET, NodeAction.REBOOT, NodeAction.REPLACE)
"""Repairs, mildest first; each is followed by the next if it does not help."""
STRICTNESS = (RunningJobs.FINISH, RunningJobs.MOVE, RunningJobs.REQUEUE)


@dataclass(slots=True, kw_only=True)
class Unit(UnitState):
    """A node or a device."""

    kind: str
    name: str

    @property
    def key(self) -> UnitKey:
        """Return its key."""
        return self.kind, self.name

    @property
    def is_healthy(self) -> bool:
        """Return whether health allows its use."""
        return self.phase is HealthPhase.HEALTHY

    @property
    def grave(self) -> list[OpenFault]:
        """Return the faults that keep jobs off it."""
        return [one for one in self.faults.values() if one.told.fault_class.is_hardware and not one.told.store_only]

    @property
    def wanted_running(self) -> RunningJobs:
        """Return the strictest treatment of jobs among its faults."""
        return max((one.told.running for one in self.grave), key=STRICTNESS.index, default=RunningJobs.FINISH)

    @property
    def wanted_action(self) -> NodeAction | None:
        """Return the most thorough repair among its faults."""
        return max((one.told.action for one in self.grave), key=SEVERITY.index, default=None)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing about it must be remembered."""
        kept = (self.faults, self.marks, self.incidents, self.asked_by, self.maintained_by, self.reported)
        return self.is_healthy and not any(kept) and not (self.incident or self.checked_at or self.deep_at)

    def observe(self, told: FaultObserved, *, at: Instant, fact: str) -> None:
        """Record a fault; a repeated one keeps the time of its first observation."""
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
        """Remember an observation; the oldest are dropped."""
        self.marks = (*self.marks, mark)[-MARKS_MAX:]

    def began(self, at: Instant) -> int:
        """Record a new fault episode, or a loss; return by how many more are remembered."""
        before = len(self.incidents)
        self.incidents = (*self.incidents, at)[-INCIDENTS_MAX:]
        return len(self.incidents) - before


def worst(units: Iterable[Unit]) -> Unit | None:
    """Return the unit furthest from use: one that needs a person, then the earliest phase."""
    ranks = {HealthPhase.QUARANTINED: 4, HealthPhase.SUSPECT: 3, HealthPhase.REPAIRING: 2, HealthPhase.VERIFYING: 1}
    ill = [unit for unit in units if not unit.is_healthy]
    return max(ill, key=lambda unit: (unit.needs_person, ranks[unit.phase], unit.kind, unit.name), default=None)


def mark_of(told: FaultObserved, device: str, at: Instant) -> FaultMark:
    """Return what is remembered of an observation."""
    return FaultMark(
        code=told.code,
        fault_class=told.fault_class,
        device=device,
        at=told.at or at,
        count=told.count,
        teams=told.teams,
        store_only=told.store_only,
    )


class Owners:
    """Owners of unfinished jobs, and the faults reported to them."""

    def __init__(self) -> None:
        self._team: dict[str, str] = {}
        self._owner_notice: dict[str, dict[str, Instant]] = {}

    def describe(self, job: str, team: str) -> None:
        """Set the team of a job."""
        self._team[job] = team

    def end(self, job: str) -> None:
        """Forget a finished job."""
        self._team.pop(job, None)
        self._owner_notice.pop(job, None)

    def team(self, job: str) -> str:
        """Return the team of a job; "" if unknown."""
        return self._team.get(job, "")

    def emit(self, job: str, code: str, at: Instant) -> None:
        """Record that the owner was notified of an application fault."""
        if job not in self._team:
            return
        told = self._owner_notice.setdefault(job, {})
        told.pop(code, None)
        told[code] = at
        while len(told) > TOLD_MAX:
            del told[next(iter(told))]

    def forget(self, job: str, code: str) -> None:
        """Forget that the owner was notified of this fault."""
        told = self._owner_notice.get(job)
        if told is not None:
            told.pop(code, None)

    def notified_at(self, job: str, code: str) -> Instant | None:
        """Return when the owner was last notified of this fault."""
        return self._owner_notice.get(job, {}).get(code)

    def load_notices(self, job: str, stored: OwnerToldState) -> None:
        """Restore notifications, before or after the job's team is known."""
        self._owner_notice[job] = {code: Instant(at) for code, at in stored.told}

    def stored(self) -> Iterator[tuple[str, OwnerToldState]]:
        """Yield jobs with notifications, for a checkpoint."""
        for job, told in self._owner_notice.items():
            if told:
                yield job, OwnerToldState(told=tuple(told.items()))


NODE, DEVICE = "node", "device"


class State:
    """The state: `units` has nodes and devices with something to remember; all others are healthy.

    `fresh`: nodes that joined since the last decision. `on_node`: units of devices by node. `ill`: units that are not
    healthy. `work`: units by the id of an action or checks of health. `requests`: requests to drain by id, of any
    service. `orphans`: health's requests for units that are gone, and whether they were answered. `dirty`: units for
    the next decision. `judged`: nodes whose observations may escalate. `incidents`: number remembered of all nodes.
    `counted`: observations by code and class, since this process began.
    """

    def __init__(self, config: HealthConfig, signals: FaultSignals) -> None:
        self.config = config
        self.signals = signals
        self.brake = Brake(config=config.brake)
        self.holds = Holds()
        self.owners = Owners()
        self.nodes = Nodes()
        self.fresh: list[tuple[str, Instant]] = []
        self.units: dict[UnitKey, Unit] = {}
        self.on_node: dict[str, dict[str, None]] = {}
        self.ill: dict[UnitKey, None] = {}
        self.work: dict[str, UnitKey] = {}
        self.requests: dict[str, UnitKey] = {}
        self.orphans: dict[tuple[str, str, str], bool] = {}
        self.incidents = 0
        self.dirty: dict[UnitKey, None] = {}
        self.judged: dict[str, None] = {}
        self.history: deque[EndedIllness] = deque(maxlen=HISTORY_MAX)
        self.anomalies: Counter[str] = Counter()
        self.counted: Counter[tuple[str, FaultClass]] = Counter()
        self._due: list[tuple[Instant, UnitKey]] = []

    # --- units ---------------------------------------------------------------------------------------------------

    def unit(self, kind: str, name: str, node: str) -> Unit:
        """Return the unit, created if it is unknown."""
        known = self.units.get((kind, name))
        return known if known is not None else self.put(Unit(node, kind=kind, name=name))

    def put(self, unit: Unit) -> Unit:
        """Add a unit, and return it."""
        self.units[unit.key] = unit
        if unit.kind == DEVICE:
            self.on_node.setdefault(unit.node, {})[unit.name] = None
        return unit

    def touch(self, unit: Unit) -> None:
        """Mark a changed unit, and the units that wait for it, for the next decision."""
        self.dirty[unit.key] = None
        if unit.kind == NODE:
            self.dirty.update({(DEVICE, name): None for name in self.on_node.get(unit.name, ())})
        elif (NODE, unit.node) in self.ill:
            self.dirty[NODE, unit.node] = None
        if unit.is_healthy:
            self.ill.pop(unit.key, None)
        else:
            self.ill[unit.key] = None

    def drop(self, unit: Unit) -> None:
        """Forget a unit."""
        self.units.pop(unit.key, None)
        self.ill.pop(unit.key, None)
        self.dirty.pop(unit.key, None)
        self.incidents -= len(unit.incidents)
        self.work.pop(unit.work_id, None)
        for request in (unit.request_id, unit.withdrawn_id, *unit.asked_by, *unit.maintained_by):
            self.requests.pop(request, None)
        if unit.kind == DEVICE:
            devices = self.on_node.get(unit.node, {})
            devices.pop(unit.name, None)
            if not devices:
                self.on_node.pop(unit.node, None)

    def devices_of(self, node: str) -> list[Unit]:
        """Return the units of the node's devices."""
        return [self.units[DEVICE, name] for name in self.on_node.get(node, ())]

    def node_unit(self, node: str) -> Unit | None:
        """Return the node's own unit, if it has one."""
        return self.units.get((NODE, node))

    def is_in_maintenance(self, node: str, device: str = "") -> bool:
        """Return whether another service drained the node or device: then it causes what is observed."""
        unit = self.units.get((NODE, node))
        if unit is not None and unit.maintained_by:
            return True
        own = self.units.get((DEVICE, device)) if device else None
        return own is not None and bool(own.maintained_by)

    def observes_only(self, node: str) -> bool:
        """Return whether observations of the node are only recorded."""
        if self.config.dry_run or node in self.config.opt_out:
            return True
        description = self.nodes.description(node)
        return description is not None and dict(description.labels).get(OPT_OUT_LABEL) == OBSERVE

    def rules_of(self, node: str) -> RuleTable:
        """Return the rules of the node's GPU model."""
        description = self.nodes.description(node)
        return self.config.rules.of(description.gpu_model if description is not None else "")

    def holders(self, node: str, device: str = "") -> tuple[str, ...]:
        """Return the jobs that hold the device, or the whole node, at most JOBS_MAX.

        Where the kubelet picks and the holder is unknown: the jobs that may hold it.
        """
        if not device:
            return self.holds.jobs_on(node)[:JOBS_MAX]
        known = self.nodes.get(node)
        found = self.holds.device_holders(node, device, known.shown if known is not None else {})
        return (found.known or found.possible)[:JOBS_MAX]

    def note_incident(self, node: str, at: Instant) -> None:
        """Record a fault episode or loss of a node, for finding lemons."""
        self.incidents += self.unit(NODE, node, node).began(at)

    def unit_with(self, node: str, device: str, code: str) -> Unit | None:
        """Return the unit with this open fault, the device or its node."""
        for key in ((DEVICE, device), (NODE, node)):
            unit = self.units.get(key)
            if unit is not None and (code, device) in unit.faults:
                return unit
        return None

    def standing(self, node: str) -> set[tuple[str, str]]:
        """Return the open lasting faults of the node and its devices, as (device, code)."""
        found = set[tuple[str, str]]()
        own = self.units.get((NODE, node))
        if own is not None:
            found.update((device, code) for (code, device), one in own.faults.items() if one.told.is_condition)
        for name in self.on_node.get(node, ()):
            faults = self.units[DEVICE, name].faults
            found.update((device, code) for (code, device), one in faults.items() if one.told.is_condition)
        return found

    def was_reported(self, node: str, device: str, code: str, since: Instant) -> bool:
        """Return whether the fault of the device was reported since then, as far as remembered."""
        unit = self.units.get((NODE, node))
        if unit is None:
            return False
        return any(mark.code == code and mark.device == device and mark.at >= since for mark in unit.marks)

    # --- time ----------------------------------------------------------------------------------------------------

    def look_at(self, moment: Instant, unit: Unit) -> None:
        """Evaluate the unit at this time; an extra evaluation does no harm."""
        heapq.heappush(self._due, (moment, unit.key))

    def advance(self, now: Instant) -> None:
        """Mark the units that are due."""
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            if key in self.units:
                self.dirty[key] = None

    def next_due(self) -> Instant | None:
        """Return when the next unit is due."""
        return self._due[0][0] if self._due else None


OWN = "health"
GONE = "what it was asked for is gone"


def abandon_requests(state: State, unit: Unit) -> None:
    """Withdraw the requests of a unit before it is dropped, unless another node shows the device now."""
    stays = unit.kind == DEVICE and unit.name in state.nodes.node_of
    for request, answered in ((unit.request_id, unit.is_withheld), (unit.withdrawn_id, unit.crossed)):
        if request and (stays if answered else request == unit.request_id):
            state.orphans[unit.kind, unit.name, request] = answered


def is_own_request(name: str, request: str) -> bool:
    """Return whether the request id to drain `name` is health's."""
    return request.startswith(f"{OWN}.{name}.")


def load_orphans(state: State, kind: str, name: str, grant: GrantState) -> None:
    """Restore requests from a checkpoint; those of units in it are not orphans."""
    for request in grant.wishes:
        if (
            is_own_request(name, request.request_id)
            and request.by in (OWN, "")
            and request.request_id not in state.requests
        ):
            state.orphans[kind, name, request.request_id] = request.answered


def orphan_withdrawals(state: State, room: int) -> list[Draft]:
    """Return at most `room` withdrawals of orphaned requests."""
    found = list(state.orphans.items())[: max(0, room)]
    return [
        Draft(
            kind,
            name,
            "withhold-withdrawn",
            WithholdWithdrawn(request_id=request, reason=GONE, after_withheld=answered),
        )
        for (kind, name, request), answered in found
    ]
