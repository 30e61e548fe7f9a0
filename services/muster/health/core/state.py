"""All that health believes of the cluster, with the indexes that keep each decision as small as what changed."""

import heapq
from collections import Counter, deque

from muster.cluster import Holds, Nodes
from muster.core import Instant
from muster.health.core.brake import Brake
from muster.health.core.config import OBSERVE, OPT_OUT_LABEL, HealthConfig
from muster.health.core.limits import HISTORY_MAX, JOBS_MAX
from muster.health.core.owners import Owners
from muster.health.core.rules import RuleTable
from muster.health.core.sightings import Sightings
from muster.health.core.units import Unit, UnitKey
from muster.schemas.conditions import EndedIllness
from muster.schemas.facts.health import FaultClass

NODE, DEVICE = "node", "device"


class State:
    """units: nodes and devices of which something has to be remembered; others are healthy.

    fresh: nodes that joined since the last decision, and when. on_node: units of devices, by node. ill: units that are
    not healthy. work: by the id of an action or of checks that health asked for, whose they are. requests: by the id of
    a request to withhold, of whichever service. strays: requests of health for what is gone, as (kind, name, request),
    and whether they were answered. dirty: units to be looked at by the next decision; judged: nodes whose
    observations may amount to more. incidents: that are remembered of all nodes. counted: observations by code and
    class, since this instance began.
    """

    def __init__(self, config: HealthConfig, sightings: Sightings) -> None:
        self.config = config
        self.sightings = sightings
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
        self.strays: dict[tuple[str, str, str], bool] = {}
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

    def is_in_other_hands(self, node: str, device: str = "") -> bool:
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

    def was_told(self, node: str, device: str, code: str, since: Instant) -> bool:
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
