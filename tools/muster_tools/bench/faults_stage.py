"""A composer over a failing fabric in virtual time: the passing of time, and changes of leaders."""

from collections import Counter
from collections.abc import Callable

from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.composer.virtual import VirtualFabrics
from muster.core import Fact, Instant
from muster.core.settings import FabricBehaviour
from muster.core.virtual import recover
from muster.fabric.layout import machine_id, node_name, pool_device_uuid
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import PoolDevice
from muster.schemas.devices import Origin
from muster.schemas.facts.composability import RequestEnded
from muster.schemas.facts.device import (
    AttachmentRequested,
    CallFailed,
    CallStarted,
    DeviceAttached,
    DeviceDetached,
)
from muster_tools.bench.faults_harness import START, AgentStandIn, Delays, SchedulerStandIn, SharedLog
from muster_tools.bench.faults_plan import Found, Plan


class Ledger:
    """Counters, claims and violations."""

    def __init__(self, model: FabricModel) -> None:
        self._model = model
        self.claims: dict[str, tuple[str, str]] = {}
        """Attachment and machine of each device that is attached according to the log."""
        self.attaching: dict[str, Instant] = {}
        """Attachments whose call is running according to the log."""
        self._detaching: dict[str, Instant] = {}
        self._requested: dict[str, AttachmentRequested] = {}
        self._tried: set[str] = set()
        self._unsettled: set[str] = set()
        self.cycles = self.calls = self.retries = self.adoptions = 0
        self.orphans_found = self.orphans_returned = self.requests_failed = self.given_up = 0
        self.doubly_attached = self.misplaced = self.quiet_moments = self.in_flight_max = 0

    def fold(self, fact: Fact) -> None:
        """Fold one fact."""
        name, payload = fact.subject_id, fact.payload
        match payload:
            case AttachmentRequested():
                self._requested[name] = payload
            case CallStarted():
                self._call(fact, payload)
            case CallFailed():
                self._failed(fact)
            case DeviceAttached():
                self._attached(name, payload)
            case DeviceDetached():
                self._detached(name, payload)
            case RequestEnded(failed=True):
                self.requests_failed += 1
        match fact.kind, fact.name:
            case "attachment", "failed":
                self.attaching.pop(name, None)
                self._unsettled.discard(name)
            case "attachment", "detach-given-up":
                self._detaching.pop(name, None)
                self._unsettled.discard(name)
                self.given_up += 1
            case "fabric", "orphan-found":
                self.orphans_found += 1
            case "fabric", "orphan-returned":
                self.orphans_returned += 1

    def look(self) -> None:
        """Compare the state of the fabric with the log, at a quiescent moment."""
        in_flight = len(self.attaching) + len(self._detaching)
        self.in_flight_max = max(self.in_flight_max, in_flight)
        if not in_flight and not self._unsettled and not self._model.running:
            self.quiet_moments += 1
            self.misplaced += sum(
                1
                for device_id, (_, machine) in self.claims.items()
                if all(there.device_id != device_id for there in self._model.on_machine(machine))
            )

    def leaked(self) -> int:
        """Return the number of devices on machines that no attachment claims."""
        machines = self._model.inventory().machines
        return sum(1 for devices in machines.values() for device in devices if device.device_id not in self.claims)

    def _call(self, fact: Fact, started: CallStarted) -> None:
        calls = self.attaching if fact.name == "attaching" else self._detaching
        self.calls += 1
        self.retries += fact.subject_id in self._tried
        self._tried.add(fact.subject_id)
        self._unsettled.discard(fact.subject_id)
        calls[fact.subject_id] = Instant(started.deadline_at)

    def _failed(self, fact: Fact) -> None:
        calls = self.attaching if fact.name == "attach-failed" else self._detaching
        calls.pop(fact.subject_id, None)
        self._unsettled.add(fact.subject_id)

    def _attached(self, name: str, device: DeviceAttached) -> None:
        self.attaching.pop(name, None)
        self._tried.discard(name)
        self._unsettled.discard(name)
        self.adoptions += device.adopted and self._requested[name].origin is not Origin.ORPHAN
        if device.device_id in self.claims:
            self.doubly_attached += 1
        self.claims[device.device_id] = name, device.machine

    def _detached(self, name: str, device: DeviceDetached) -> None:
        self._detaching.pop(name, None)
        self._tried.discard(name)
        self._unsettled.discard(name)
        self.claims.pop(device.device_id, None)
        self.cycles += self._requested.pop(name).origin is not Origin.ORPHAN


FABRIC, GROUP, MODEL = "fabric", "composable", "A100"
BOUNDS = Bounds(withhold_s_max=30.0, scaler_withhold_s=20.0, orphan_s=120.0, attach_s_max=900.0)
CALL_S = 30.0
SHARES = {"drop_share": 0.7, "refuse_share": 0.06, "half_share": 0.1, "nonsense_share": 0.06, "twice_share": 0.08}
"""Fractions of the fault types; a dropped response is the time-out after success."""


WRITER = "composer"
"""Writer whose core is run."""


class Harness(SharedLog):
    """One run. Pure: the same plan gives the same figures."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        names = [node_name(GROUP, index) for index in range(1, plan.nodes + 1)]
        self.machines = {name: machine_id(name) for name in names}
        self.model = _model(plan, list(self.machines.values()))
        self.config = ComposerConfig(
            fabrics=(FabricConfig(FABRIC, limit=plan.limit, call_s=CALL_S),),
            groups=(GroupConfig(GROUP, FABRIC, (MODEL,), gpus_max=8),),
            bounds=BOUNDS,
        )
        self.told: Counter[str] = Counter()
        self.ledger = Ledger(self.model)
        self.fabrics = VirtualFabrics({FABRIC: self.model})
        self.core = ComposerCore(self.fabrics, self.config)
        super().__init__({WRITER: self.core})
        delays = Delays()
        self.scheduler = SchedulerStandIn(self, seed=plan.seed, delays=delays)
        self.agent = AgentStandIn(self, self.scheduler, group=GROUP, nodes=self.machines, delays=delays)
        self.folds[:0] = [self.ledger.fold]
        self._parts: list[Fact] = []
        self.leader_changes = self.changes_in_attach = self.calls_lost = 0
        self.anomalies: Counter[str] = Counter()

    # --- time ------------------------------------------------------------------------------------------------

    def run(self, until: Instant, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Let virtual time pass. Raises NeverSettlesError."""
        if stop():
            return
        for _ in self.moments(until):
            if stop():
                return

    def decide_once(self, writer: str) -> list[Fact]:
        """Decide as in any virtual cluster; then compare the state of the fabric with the log."""
        facts = super().decide_once(writer)
        self.ledger.look()
        return facts

    # --- leaders -----------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the checkpoint of every service."""
        self._parts = [
            *self.snapshot(),
            *self.state_facts("scheduler", self.scheduler.states()),
            *self.state_facts("agent", self.agent.states()),
        ]
        self.log.clear()

    def change_leader(self) -> None:
        """Start a new instance from checkpoint and log. The old one's calls are lost; the fabric carries them out."""
        attaching = self.ledger.attaching
        self.leader_changes += 1
        self.changes_in_attach += bool(attaching)
        self.calls_lost += self.fabrics.running
        self._count_told()
        self.fabrics = VirtualFabrics({FABRIC: self.model})
        core = ComposerCore(self.fabrics, self.config)
        self.core = recover(core, self._parts, self.log)
        self.fabrics.start_term()
        self.replace(WRITER, self.core)

    def _count_told(self) -> None:
        self.told.update(self.fabrics.counts)
        self.anomalies.update(self.core.state.anomalies)

    def report(self) -> Found:
        """Return the results so far."""
        self._count_told()
        ledger = self.ledger
        return Found(
            cycles=ledger.cycles,
            virtual_s=(self.now - START) / 1e9,
            facts=self.seq,
            calls=ledger.calls,
            told=dict(self.told),
            timeouts_after_success=self.told["attach dropped"] + self.told["detach dropped"],
            timeouts_after_attach=self.told["attach dropped"],
            leader_changes=self.leader_changes,
            leader_changes_in_attach=self.changes_in_attach,
            calls_lost=self.calls_lost,
            retries=ledger.retries,
            adoptions=ledger.adoptions,
            orphans_found=ledger.orphans_found,
            orphans_returned=ledger.orphans_returned,
            requests_failed=ledger.requests_failed,
            detachments_given_up=ledger.given_up,
            quiet_moments=ledger.quiet_moments,
            in_flight_max=ledger.in_flight_max,
            limit=self.plan.limit,
            leaked=ledger.leaked(),
            doubly_attached=ledger.doubly_attached,
            misplaced=ledger.misplaced,
            withheld=self.scheduler.withheld,
            anomalies=dict(self.anomalies),
        )


def _model(plan: Plan, machines: list[str]) -> FabricModel:
    shares = {name: share * plan.faults for name, share in SHARES.items()}
    devices = [PoolDevice(pool_device_uuid(FABRIC, MODEL, index), MODEL) for index in range(plan.pool)]
    behaviour = FabricBehaviour(seed=plan.seed, limit=2 * plan.limit, **shares)
    return FabricModel(name=FABRIC, behaviour=behaviour, devices=devices, machines=machines)
