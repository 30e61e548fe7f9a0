"""One composer over one fabric that fails, in virtual time: how time passes, and how leaders change."""

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
from muster_tools.bench.faults_house import START, AgentStandIn, Delays, SchedulerStandIn, SharedLog
from muster_tools.bench.faults_ledger import Ledger
from muster_tools.bench.faults_plan import Found, Plan

FABRIC, GROUP, MODEL = "fabric", "composable", "A100"
BOUNDS = Bounds(withhold_s_max=30.0, scaler_withhold_s=20.0, orphan_s=120.0, attach_s_max=900.0)
CALL_S = 30.0
SHARES = {"drop_share": 0.7, "refuse_share": 0.06, "half_share": 0.1, "nonsense_share": 0.06, "twice_share": 0.08}
"""Of the faults; a dropped answer is the time-out after success."""


WRITER = "composer"
"""Whose core it is."""


class House(SharedLog):
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
        """Let time pass. Raises NeverSettlesError."""
        if stop():
            return
        for _ in self.moments(until):
            if stop():
                return

    def decide_once(self, writer: str) -> list[Fact]:
        """As in any virtual cluster; then compare what the fabric holds with the log."""
        facts = super().decide_once(writer)
        self.ledger.look()
        return facts

    # --- leaders -----------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Every service's part, as of now."""
        self._parts = [
            *self.snapshot(),
            *self.state_facts("scheduler", self.scheduler.states()),
            *self.state_facts("agent", self.agent.states()),
        ]
        self.log.clear()

    def change_leader(self) -> None:
        """Another instance: from the checkpoint and the log after it. Calls of the old one are lost, and go on."""
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
        """What happened so far."""
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
