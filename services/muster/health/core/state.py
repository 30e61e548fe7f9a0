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


class Owners:
    """Owners of jobs that are not over. Only what they were told is health's own."""

    def __init__(self) -> None:
        self._team: dict[str, str] = {}
        self._owner_notice: dict[str, dict[str, Instant]] = {}

    def describe(self, job: str, team: str) -> None:
        """Whose job it is."""
        self._team[job] = team

    def end(self, job: str) -> None:
        """It is over."""
        self._team.pop(job, None)
        self._owner_notice.pop(job, None)

    def team(self, job: str) -> str:
        """Whose job it is; "" if that is not known."""
        return self._team.get(job, "")

    def emit(self, job: str, code: str, at: Instant) -> None:
        """Its owner was told of an application fault."""
        if job not in self._team:
            return
        told = self._owner_notice.setdefault(job, {})
        told.pop(code, None)
        told[code] = at
        while len(told) > TOLD_MAX:
            del told[next(iter(told))]

    def forget(self, job: str, code: str) -> None:
        """What its owner was told of this fault was another matter."""
        told = self._owner_notice.get(job)
        if told is not None:
            told.pop(code, None)

    def notified_at(self, job: str, code: str) -> Instant | None:
        """When its owner was told of this fault last."""
        return self._owner_notice.get(job, {}).get(code)

    def load_notices(self, job: str, stored: OwnerToldState) -> None:
        """What a checkpoint says, before or after it says whose job it is."""
        self._owner_notice[job] = {code: Instant(at) for code, at in stored.told}

    def stored(self) -> Iterator[tuple[str, OwnerToldState]]:
        """Jobs whose owners were told of something, for a checkpoint."""
        for job, told in self._owner_notice.items():
            if told:
                yield job, OwnerToldState(told=tuple(told.items()))


NODE, DEVICE = "node", "device"


class State:
    """units: nodes and devices of which something has to be remembered; others are healthy.

    fresh: nodes that joined since the last decision, and when. on_node: units of devices, by node. ill: units that are
    not healthy. work: by the id of an action or of checks that health asked for, whose they are. requests: by the id of
    a request to withhold, of whichever service. orphans: requests of health for what is gone, as (kind, name, request),
    and whether they were answered. dirty: units to be looked at by the next decision; judged: nodes whose
    observations may amount to more. incidents: that are remembered of all nodes. counted: observations by code and
    class, since this instance began.
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
        """The unit, made if nothing was remembered of it."""
        known = self.units.get((kind, name))
        return known if known is not None else self.put(Unit(node, kind=kind, name=name))

    def put(self, unit: Unit) -> Unit:
        """A new one, or one from a checkpoint; returns it."""
        self.units[unit.key] = unit
        if unit.kind == DEVICE:
            self.on_node.setdefault(unit.node, {})[unit.name] = None
        return unit

    def touch(self, unit: Unit) -> None:
        """It changed: it is looked at, and the units that wait for it."""
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
        """Nothing has to be remembered of it any more."""
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
        """Units of the node's devices."""
        return [self.units[DEVICE, name] for name in self.on_node.get(node, ())]

    def node_unit(self, node: str) -> Unit | None:
        """The node's own unit, if something is remembered of it."""
        return self.units.get((NODE, node))

    def is_in_maintenance(self, node: str, device: str = "") -> bool:
        """Whether another service has the node, or this device of it: what is seen then is its doing."""
        unit = self.units.get((NODE, node))
        if unit is not None and unit.maintained_by:
            return True
        own = self.units.get((DEVICE, device)) if device else None
        return own is not None and bool(own.maintained_by)

    def observes_only(self, node: str) -> bool:
        """Whether what is seen there is recorded, and nothing follows."""
        if self.config.dry_run or node in self.config.opt_out:
            return True
        description = self.nodes.description(node)
        return description is not None and dict(description.labels).get(OPT_OUT_LABEL) == OBSERVE

    def rules_of(self, node: str) -> RuleTable:
        """The rules of the node's GPU model."""
        description = self.nodes.description(node)
        return self.config.rules.of(description.gpu_model if description is not None else "")

    def holders(self, node: str, device: str = "") -> tuple[str, ...]:
        """Jobs that hold the device, or the whole node without one; JOBS_MAX at most.

        Where the kubelet picks and nobody was seen with the device: those that may hold it.
        """
        if not device:
            return self.holds.jobs_on(node)[:JOBS_MAX]
        known = self.nodes.get(node)
        found = self.holds.device_holders(node, device, known.shown if known is not None else {})
        return (found.known or found.possible)[:JOBS_MAX]

    def note_incident(self, node: str, at: Instant) -> None:
        """A node fell ill, or was lost: what lemons are found by."""
        self.incidents += self.unit(NODE, node, node).began(at)

    def unit_with(self, node: str, device: str, code: str) -> Unit | None:
        """The unit of which this fault stands, the device's or its node's."""
        for key in ((DEVICE, device), (NODE, node)):
            unit = self.units.get(key)
            if unit is not None and (code, device) in unit.faults:
                return unit
        return None

    def standing(self, node: str) -> set[tuple[str, str]]:
        """Lasting faults that stand of the node and its devices, as (device, code)."""
        found = set[tuple[str, str]]()
        own = self.units.get((NODE, node))
        if own is not None:
            found.update((device, code) for (code, device), one in own.faults.items() if one.told.is_condition)
        for name in self.on_node.get(node, ()):
            faults = self.units[DEVICE, name].faults
            found.update((device, code) for (code, device), one in faults.items() if one.told.is_condition)
        return found

    def was_reported(self, node: str, device: str, code: str, since: Instant) -> bool:
        """Whether the fault was told of the device since that moment, as far as is remembered."""
        unit = self.units.get((NODE, node))
        if unit is None:
            return False
        return any(mark.code == code and mark.device == device and mark.at >= since for mark in unit.marks)

    # --- time ----------------------------------------------------------------------------------------------------

    def look_at(self, moment: Instant, unit: Unit) -> None:
        """Look at the unit when the moment has come; once too often does no harm."""
        heapq.heappush(self._due, (moment, unit.key))

    def advance(self, now: Instant) -> None:
        """Mark every unit whose time came."""
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            if key in self.units:
                self.dirty[key] = None

    def next_due(self) -> Instant | None:
        """When the next one comes due."""
        return self._due[0][0] if self._due else None


OWN = "health"
GONE = "what it was asked for is gone"


def abandon_requests(state: State, unit: Unit) -> None:
    """The unit is about to be dropped. What was answered goes with it, unless another node shows the device by now."""
    stays = unit.kind == DEVICE and unit.name in state.nodes.node_of
    for request, answered in ((unit.request_id, unit.is_withheld), (unit.withdrawn_id, unit.crossed)):
        if request and (stays if answered else request == unit.request_id):
            state.orphans[unit.kind, unit.name, request] = answered


def is_own_request(name: str, request: str) -> bool:
    """Whether health asked under this id to withhold what has this name."""
    return request.startswith(f"{OWN}.{name}.")


def load_orphans(state: State, kind: str, name: str, grant: GrantState) -> None:
    """What a checkpoint says of requests; those of units that come with it, before or after, are no orphans."""
    for wish in grant.wishes:
        if is_own_request(name, wish.request_id) and wish.by in (OWN, "") and wish.request_id not in state.requests:
            state.orphans[kind, name, wish.request_id] = wish.answered


def orphan_withdrawals(state: State, room: int) -> list[Draft]:
    """At most `room` of them."""
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
