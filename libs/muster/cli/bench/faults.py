"""Thousands of attachments and detachments over a fabric that fails, with leaders that change in mid-call.

The composer's core over a model of a fabric, in virtual time. Calls of a deposed leader are lost while the fabric
carries them on. What the fabric really holds is compared with what the log says, at every quiet moment and at the end.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from muster.cli.bench.faults_house import (
    START,
    Agenda,
    AgentStandIn,
    Delays,
    Log,
    SchedulerStandIn,
    on_grid,
)
from muster.cli.bench.faults_ledger import Ledger
from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.composer.virtual import VirtualFabrics
from muster.core import Draft, Fact, Instant, after
from muster.core.seeded import uniform
from muster.fabric.layout import machine_id, node_name, pool_device_uuid
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Behaviour, PoolDevice
from muster.schemas.devices import ComposabilitySpec, RequestPhase
from muster.schemas.facts.device import ComposeRequested, DecomposeRequested, RequestMoved
from muster.schemas.facts.scale import ScaleChosen, ScalePart

FABRIC, GROUP, MODEL = "fabric", "composable", "A100"
BOUNDS = Bounds(withhold_s_max=30.0, scaler_withhold_s=20.0, orphan_s=120.0, attach_s_max=900.0)
CALL_S = 30.0
SHARES = {"drop_share": 0.5, "refuse_share": 0.1, "half_share": 0.15, "nonsense_share": 0.1, "twice_share": 0.15}
"""Of the faults; a dropped answer is the time-out after success."""
DECISIONS_MAX = 1_000
"""Decisions with something to say at one moment; a core that goes on beyond it never ends."""
DAY_S = 86_400.0
QUIET_S = 1_800.0
"""Virtual time for everything to come to rest at the end."""
LEADER_EVERY, CHECKPOINTS = 44, 3
"""A leader stays for so many cycles, and takes part in so many checkpoints."""


class NoEndError(RuntimeError):
    """The core never comes to rest: a defect."""


@dataclass(frozen=True, slots=True)
class Plan:
    """cycles: attachments that are detached again. faults: share of calls that go wrong. nodes: of 8 GPUs at most."""

    cycles: int = 10_000
    faults: float = 0.05
    seed: int = 1
    nodes: int = 16
    pool: int = 160
    limit: int = 32
    busy: int = 14

    @property
    def turns(self) -> range:
        """Cycles after which a checkpoint is written, or the leader changes."""
        step = LEADER_EVERY // (CHECKPOINTS + 1)
        return range(step, self.cycles + step, step)


@dataclass(frozen=True, slots=True)
class Found:
    """What happened. told: outcomes of calls, by what was called and how it ended.

    timeouts_after_success: calls whose answer was lost though the device moved. calls_lost: with their leader.
    quiet_moments: at which nothing was under way or unsure, so that log and fabric could be compared. leaked: devices
    on machines that belong to no attachment, at the end. misplaced: attached by the log, and not there. withheld:
    devices that jobs may not use at the end, for nothing.
    """

    cycles: int
    virtual_s: float
    facts: int
    calls: int
    told: dict[str, int]
    timeouts_after_success: int
    leader_changes: int
    leader_changes_in_attach: int
    calls_lost: int
    retries: int
    adoptions: int
    orphans_found: int
    orphans_returned: int
    requests_failed: int
    detachments_given_up: int
    quiet_moments: int
    in_flight_max: int
    limit: int
    leaked: int
    doubly_attached: int
    misplaced: int
    withheld: int
    anomalies: dict[str, int]


class House:
    """One run. Pure: the same plan gives the same figures."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.log, self.agenda = Log(), Agenda()
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
        self.log.folds.append(self.ledger.fold)
        delays = Delays()
        self.scheduler = SchedulerStandIn(self.log, self.agenda, seed=plan.seed, delays=delays)
        self.agent = AgentStandIn(
            self.log, self.agenda, self.scheduler, group=GROUP, nodes=self.machines, delays=delays
        )
        self.fabrics = VirtualFabrics({FABRIC: self.model})
        self.core = ComposerCore(self.fabrics, self.config)
        self.log.folds.append(self._fold)
        self._parts: list[Draft] = []
        self._tail: list[Fact] = []
        self.leader_changes = self.changes_in_attach = self.calls_lost = 0
        self.anomalies: Counter[str] = Counter()

    def _fold(self, fact: Fact) -> None:
        self._tail.append(fact)
        self.core.apply(fact)

    # --- time ------------------------------------------------------------------------------------------------

    def run(self, until: Instant, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass. Raises NoEndError."""
        while not stop():
            self.agenda.run(self.log.now)
            self.settle()
            moments = (self.agenda.next_at(), self.core.next_wakeup())
            due = min((moment for moment in moments if moment is not None), default=until)
            due = on_grid(Instant(max(due, self.log.now + 1)))
            if due > until:
                self.log.now = until
                return
            self.log.now = due

    def settle(self) -> None:
        """Let the core decide until it has nothing to say. Raises NoEndError."""
        for _ in range(DECISIONS_MAX):
            drafts = self.core.decide(self.log.now)
            if not drafts:
                self.ledger.look()
                return
            self.log.append("composer", drafts)
            self.ledger.look()
        raise NoEndError(f"{DECISIONS_MAX} decisions at one moment; the last began with {drafts[0]}")

    # --- leaders -----------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Every service's part, as of now."""
        self._parts = [*self.core.snapshot(), *self.scheduler.states(), *self.agent.states()]
        self._tail = []

    def change_leader(self) -> None:
        """Another instance: from the checkpoint and the log after it. Calls of the old one are lost, and go on."""
        attaching = self.ledger.attaching
        self.leader_changes += 1
        self.changes_in_attach += bool(attaching)
        self.calls_lost += self.fabrics.running
        self._count_told()
        self.fabrics = VirtualFabrics({FABRIC: self.model})
        core = ComposerCore(self.fabrics, self.config)
        for index, draft in enumerate(self._parts):
            writer = "composer" if draft.kind in ("attachment", "composability", "fabric") else "agent"
            core.apply(
                Fact(
                    f"p{index}", 0, self.log.now, "sim", writer, draft.kind, draft.subject_id, draft.name, (),
                    draft.trace, draft.payload,
                )
            )  # fmt: skip
        for fact in self._tail:
            core.apply(fact)
        self.fabrics.start_term()
        self.core = core

    def _count_told(self) -> None:
        self.told.update(self.fabrics.counts)
        self.anomalies.update(self.core.state.anomalies)

    def report(self) -> Found:
        """What happened so far."""
        self._count_told()
        ledger = self.ledger
        return Found(
            cycles=ledger.cycles,
            virtual_s=(self.log.now - START) / 1e9,
            facts=self.log.seq,
            calls=ledger.calls,
            told=dict(self.told),
            timeouts_after_success=self.told["attach dropped"] + self.told["detach dropped"],
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


class People:
    """Asks for devices and gives them back, `busy` requests at a time: half by hand, half as the scaler does."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._numbers = itertools.count(1)
        self._open: set[str] = set()
        self.goes_on = True
        house.log.folds.append(self._fold)

    def start(self) -> None:
        """All at once."""
        for _ in range(self._house.plan.busy):
            self._ask()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked any more."""
        return not self._open

    def _ask(self) -> None:
        house, number = self._house, next(self._numbers)
        size = 1 + int(3 * self._draw("size", number))
        if number % 2:
            name = f"r{number:05}"
            spec = ComposabilitySpec(model=MODEL, size=size)
            self._open.add(name)
            house.log.say(
                "federation", "composability", name, "compose-forwarded", ComposeRequested(spec=spec, principal="ann")
            )
            return
        name = f"s{number:06}"
        node = list(house.machines)[int(house.plan.nodes * self._draw("node", number))]
        parts = (ScalePart(node=node, count=size, fabric=FABRIC, device_model=MODEL),)
        self._open.add(name)
        house.log.say("scaler", "scale", name, "gpu-attach-chosen", ScaleChosen(case=1, count=size, parts=parts))

    def _fold(self, fact: Fact) -> None:
        if fact.kind != "composability" or fact.subject_id not in self._open:
            return
        name, house = fact.subject_id, self._house
        if isinstance(fact.payload, RequestMoved) and fact.payload.phase is RequestPhase.RUNNING:
            hold_s = 20.0 * self._draw("hold", name)
            house.agenda.at(after(house.log.now, hold_s), lambda: self._give_back(name))
        elif fact.name in ("ended", "refused"):
            self._open.discard(name)
            if self.goes_on:
                house.agenda.at(after(house.log.now, 0.1), self._ask)

    def _give_back(self, name: str) -> None:
        house = self._house
        if name not in self._open:
            return
        if name.startswith("r"):
            payload = DecomposeRequested(principal="ann")
            house.log.say("federation", "composability", name, "decompose-forwarded", payload)
            return
        request = house.core.state.requests[name]
        devices = tuple(house.core.state.attachments[one].device_uuid for one in request.attachments)
        if devices:
            chosen = ScaleChosen(case=3, devices=devices)
            house.log.say("scaler", "scale", f"{name}-back-{house.log.seq}", "gpu-remove-chosen", chosen)
            house.agenda.at(after(house.log.now, 150.0), lambda: self._give_back(name))

    def _draw(self, *purpose: str | int) -> float:
        return uniform(self._house.plan.seed, "people", *purpose)


def measure(plan: Plan, *, done: Callable[[], None] = lambda: None) -> Found:
    """Run it to the end. done: told after each of the plan's turns. Raises NoEndError."""
    house = House(plan)
    people = People(house)
    house.agent.start()
    house.run(after(START, 5.0))
    house.checkpoint()
    people.start()
    for turn, target in enumerate(plan.turns, 1):
        house.run(after(house.log.now, DAY_S), stop=partial(_is_reached, house, plan, target))
        done()
        if turn % (CHECKPOINTS + 1):
            house.checkpoint()
        else:
            house.change_leader()
    people.goes_on = False
    house.run(after(house.log.now, DAY_S), stop=lambda: people.is_idle)
    house.run(after(house.log.now, QUIET_S))
    return house.report()


def _is_reached(house: House, plan: Plan, target: int) -> bool:
    """So many cycles, and a call to attach is under way: that is when leaders change."""
    return house.ledger.cycles >= target and bool(house.ledger.attaching or target >= plan.cycles)


def _model(plan: Plan, machines: list[str]) -> FabricModel:
    shares = {name: share * plan.faults for name, share in SHARES.items()}
    devices = [PoolDevice(pool_device_uuid(FABRIC, MODEL, index), MODEL) for index in range(plan.pool)]
    settings = Behaviour(seed=plan.seed, limit=2 * plan.limit, **shares)
    return FabricModel(name=FABRIC, settings=settings, devices=devices, machines=machines)
