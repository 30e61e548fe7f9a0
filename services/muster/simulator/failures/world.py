"""The environment of the fleet: faults strike, pages show them, programs die, people repair.

The cores get the same inputs as from their shells: readings at health's port, the agent's observations, and requests of
people. Cost grows with incidents: a node without incidents is never read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from muster.core import Fact, Instant, after, seconds_between
from muster.core.seeded import lognormal, uniform
from muster.fabric.layout import device_uuids
from muster.health.core.core import HealthCore
from muster.schemas.facts.health import HealthMoved, HealthPhase, VerifyRequested
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.node import CordonRequested, NodeLost
from muster.schemas.facts.operations import ActionOutcome, NodeAction, NodeActionEnded, NodeActionRequested
from muster.schemas.telemetry import DeviceSample, NodeSample, WatchLevel, WatchReading
from muster.simulator.engine import START, Engine
from muster.simulator.failures.account import Account, RunWatch
from muster.simulator.failures.calendar import PLANNED, Incident, Mend, Shown, planned_at
from muster.simulator.failures.scene import GPUS, MODEL, Scene

WATCHES = ("PCIE", "NVLINK", "MEM", "THERMAL", "POWER", "DRIVER", "CONNECTX", "ALL")
_PASSES = {name: WatchReading(watch=name) for name in WATCHES}
_FAILS = {name: WatchReading(watch=name, level=WatchLevel.FAIL) for name in WATCHES}
WELL_MAX = 4096
"""Readings of GPUs that are well, kept to be shown again."""


@dataclass(slots=True)
class Hurt:
    """Something broken of one node. shows_at: when an event of it is shown; later again, if it was not mended."""

    incident: Incident
    node: str
    shows_at: Instant
    is_told: bool = False

    @property
    def is_shown(self) -> bool:
        """Return whether the page can show it."""
        return self.incident.sign.shown not in (Shown.NOTHING, Shown.LOST)

    @property
    def lasts(self) -> bool:
        """Return whether it stays broken until it is repaired; else it is a single event."""
        return self.incident.mend is not Mend.NONE


def page(node: str, hurts: Sequence[Hurt], *, now: Instant, interval_s: float) -> NodeSample:
    """Return one reading of all GPUs of the node. Values are generated: no need to validate them."""
    uuids = device_uuids(node, GPUS)
    by_index: dict[int, list[Hurt]] = {}
    for hurt in hurts:
        by_index.setdefault(hurt.incident.device, []).append(hurt)
    gone = {index for index, some in by_index.items() if any(one.incident.sign.shown is Shown.MISSING for one in some)}
    devices = [
        _device(index, uuid, by_index[index], now) if index in by_index else _well(index, uuid)
        for index, uuid in enumerate(uuids)
        if index not in gone
    ]
    return NodeSample.model_construct(
        node=node,
        at=now,
        gpu_model=MODEL,
        devices=tuple(devices),
        gpus_expected=GPUS,
        missing=tuple(uuids[index] for index in sorted(gone)),
        interval_s=interval_s,
    )


@lru_cache(maxsize=WELL_MAX)
def _well(index: int, uuid: str) -> DeviceSample:
    return _device(index, uuid, (), Instant(0))


def _device(index: int, uuid: str, hurts: Sequence[Hurt], now: Instant) -> DeviceSample:
    signs = [hurt.incident.sign for hurt in hurts]
    failing = {sign.watch for sign in signs if sign.shown is Shown.WATCH}
    codes = [hurt.incident.sign.code for hurt in hurts if hurt.incident.sign.code and hurt.shows_at <= now]
    return DeviceSample.model_construct(
        index=index,
        uuid=uuid,
        utilisation_pct=100.0,
        memory_used_mib=70_000,
        memory_total_mib=81_559,
        power_w=600.0,
        temperature_c=60.0,
        remap_pending=any(sign.shown is Shown.PENDING for sign in signs),
        xid=codes[-1] if codes else 0,
        watches=tuple(_FAILS[name] if name in failing else _PASSES[name] for name in WATCHES),
    )


_NEVER = Instant(0)
PERSON = "on-call"
EXIT_CODE = 134
"""Exit code of a process that aborts."""
SLOWLY_S = 60.0
"""Between two readings of a node that only waits: nothing follows from more of them."""
CLEAN_S = 120.0
"""A repaired node is read for this time, longer than `steady_s`, so that the end of a lasting fault is seen."""
REPAIR_SIGMA = 0.3
NOT_MET = Instant(1 << 62)
"""The driver restarted and has not met the damage yet: a page with the same code is not another event."""
UNKNOWN, UNKNOWN_INCIDENT = "not explained", -1
MENDED_BY = {NodeAction.RESET: Mend.RESET, NodeAction.REBOOT: Mend.REBOOT, NodeAction.REPLACE: Mend.REBOOT}
"""Replacement counts as another start here: only a person replaces parts."""


@dataclass(slots=True)
class _Reading:
    """A node that is read. phase: of what health believes to be ill there. until: it is read on so long.

    is_due: another reading stands on the calendar; is_slow: not before SLOWLY_S. turn: which one it is.
    """

    phase: HealthPhase = HealthPhase.HEALTHY
    needs_person: bool = False
    until: Instant = _NEVER
    is_due: bool = False
    is_slow: bool = False
    turn: int = 0


@dataclass(slots=True)
class World:
    """engine, scene: the simulation to act on. health: None if no service reads pages. `watch` needs every fact."""

    engine: Engine
    scene: Scene
    account: Account
    run: RunWatch
    health: HealthCore | None
    hurts: dict[str, list[Hurt]] = field(default_factory=dict)
    planned: int = 0
    by_hand: int = 0
    _readings: dict[str, _Reading] = field(default_factory=dict)
    _actions: dict[str, NodeAction] = field(default_factory=dict)
    _cordoned: dict[str, str] = field(default_factory=dict)
    _expected: set[str] = field(default_factory=set)
    _ordered: set[str] = field(default_factory=set)

    def schedule(self, incidents: tuple[Incident, ...]) -> None:
        """Put everything that will happen on the engine's calendar."""
        for one in incidents:
            self.engine.at(after(START, one.at_s), partial(self._strike, one))
        scene = self.scene
        for at_s in planned_at(scene.odds, nodes=scene.job_nodes, days=scene.days, seed=scene.seed):
            self.engine.at(after(START, at_s), self._plan)

    def watch(self, fact: Fact) -> None:
        """Fold one fact, after the cores."""
        match fact.payload:
            case HealthMoved():
                self._moved(fact, fact.payload)
            case NodeActionRequested():
                self._actions[fact.payload.request_id] = fact.payload.action
            case NodeActionEnded():
                self._acted(fact.subject_id, fact.payload)
            case _ if fact.kind == "job":
                self._of_job(fact)

    # --- faults ----------------------------------------------------------------------------------------------------

    def _strike(self, incident: Incident) -> None:
        now = self.engine.now
        shown = incident.sign.shown
        if incident.dies_s is not None and any(node in self.run.nodes for node in incident.nodes):
            self._break(incident)
        for node in incident.nodes:
            if shown is Shown.LOST:
                self.engine.at(after(now, self.scene.times.lost_s), partial(self._lose, node, incident))
                continue
            hurt = Hurt(incident, node, now)
            if hurt.lasts or hurt.is_shown:
                self.hurts.setdefault(node, []).append(hurt)
            if hurt.is_shown:
                self._read(node)
            if incident.dies_s is not None:
                self._die_later(node, incident)

    def _break(self, incident: Incident) -> None:
        self.account.struck(self.engine.now, incident.cause, incident.number)

    def _lose(self, node: str, incident: Incident) -> None:
        record = self.engine.agent.nodes.get(node)
        if record is not None and not record.lost:
            self.engine.write("agent", "node", node, "lost", NodeLost(reason=f"stopped answering: {incident.cause}"))

    def _die_later(self, node: str, incident: Incident) -> None:
        if not self.run.is_running or node not in self.run.nodes:
            return
        job, attempt = self.run.job, self.run.attempt
        due = after(self.engine.now, incident.dies_s or 0.0)
        self.engine.at(due, lambda: self._die(node, job, attempt, incident))

    def _die(self, node: str, job: str, attempt: int, incident: Incident) -> None:
        """End the program unless it has ended already."""
        run = self.run
        if (run.job, run.attempt) != (job, attempt) or not run.is_running or run.is_ending:
            return
        ran_s = seconds_between(run.since, self.engine.now)
        exited = PodsExited(
            attempt=attempt, outcome=PodsOutcome.FAILED, exit_code=EXIT_CODE, ran_s=ran_s, node=node,
            reason="the program was aborted",
        )  # fmt: skip
        self.engine.write("agent", "job", job, "pods-exited", exited)
        if incident.mend is not Mend.NONE and node not in self._expected:
            self._expected.add(node)
            self.engine.at(after(self.engine.now, self.scene.times.finds_s), lambda: self._find(node))

    def _of_job(self, fact: Fact) -> None:
        if fact.name == "stop-requested":
            self.account.told_to_end(fact.time, *self._why_stopped())
        elif fact.name == "running":
            for node in sorted(self.hurts.keys() & self.run.nodes):
                for hurt in self.hurts[node]:
                    if hurt.incident.dies_s is not None and hurt.lasts:
                        self._strike_again(hurt)

    def _strike_again(self, hurt: Hurt) -> None:
        """Strike the job again on hardware that is still broken."""
        self._break(hurt.incident)
        self._die_later(hurt.node, hurt.incident)
        hurt.shows_at = NOT_MET
        if hurt.is_shown:
            self._read(hurt.node)

    def _why_stopped(self) -> tuple[str, int]:
        for node in sorted(self._cordoned.keys() & self.run.nodes):
            if self._cordoned[node] == PLANNED:
                return PLANNED, -2 - self.planned
        for node in sorted(self.hurts.keys() & self.run.nodes):
            for hurt in self.hurts[node]:
                return hurt.incident.cause, hurt.incident.number
        return UNKNOWN, UNKNOWN_INCIDENT - self.account.runs * 1_000_000

    # --- what pages show -------------------------------------------------------------------------------------------

    def _read(self, node: str) -> None:
        """Schedule the next reading of the node."""
        if self.health is None:
            return
        reading = self._readings.setdefault(node, _Reading())
        reading.until = after(self.engine.now, CLEAN_S)
        if not reading.is_due or reading.is_slow:
            turn_s = self.scene.times.scrape_s * uniform(self.scene.seed, "scrape", node)
            self._look_in(turn_s, node, reading, is_slow=False)

    def _look_in(self, delay_s: float, node: str, reading: _Reading, *, is_slow: bool) -> None:
        reading.turn += 1
        reading.is_due, reading.is_slow = True, is_slow
        turn = reading.turn
        self.engine.at(after(self.engine.now, delay_s), lambda: self._look(node, turn))

    def _look(self, node: str, turn: int) -> None:
        assert self.health is not None, "who reads has health"
        if self._readings[node].turn != turn:
            return  # an earlier one took its place
        reading, now, times = self._readings[node], self.engine.now, self.scene.times
        hurts = self.hurts.get(node, [])
        self.health.observe(page(node, hurts, now=now, interval_s=times.scrape_s), now)
        self._go_on(node, reading, now)
        reading.is_due = False
        is_ill = reading.phase is not HealthPhase.HEALTHY
        if reading.needs_person or (not is_ill and not self.hurts.get(node) and now >= reading.until):
            return
        is_urgent = now < reading.until or reading.phase is HealthPhase.VERIFYING
        self._look_in(times.scrape_s if is_urgent else SLOWLY_S, node, reading, is_slow=not is_urgent)

    def _go_on(self, node: str, reading: _Reading, now: Instant) -> None:
        """Show a passing symptom for a while; let damage strike again once the node is used."""
        left = [one for one in self.hurts.get(node, ()) if one.lasts or after(one.shows_at, SLOWLY_S) > now]
        self._put(node, left)
        if reading.phase in (HealthPhase.VERIFYING, HealthPhase.HEALTHY):
            for hurt in left:
                if hurt.shows_at == NOT_MET:
                    hurt.shows_at = after(now, self.scene.times.scrape_s)

    def _put(self, node: str, hurts: list[Hurt]) -> None:
        if hurts:
            self.hurts[node] = hurts
        else:
            self.hurts.pop(node, None)

    # --- repair ----------------------------------------------------------------------------------------------------

    def _moved(self, fact: Fact, moved: HealthMoved) -> None:
        reading = self._readings.setdefault(moved.node, _Reading())
        reading.phase, was = HealthPhase(fact.name), reading.needs_person
        reading.needs_person = moved.needs_person
        if reading.phase is HealthPhase.VERIFYING:
            self._read(moved.node)
        elif reading.phase is HealthPhase.SUSPECT:
            self.engine.at(after(fact.time, self.scene.times.looks_s), lambda: self._look_after(moved.node))
        elif reading.phase is HealthPhase.QUARANTINED and moved.needs_person and not was:
            self._order(moved.node)

    def _acted(self, node: str, ended: NodeActionEnded) -> None:
        action = self._actions.pop(ended.request_id, None)
        if action is None or ended.outcome is not ActionOutcome.DONE:
            return
        mended = MENDED_BY.get(action, Mend.NONE)
        self._put(node, [one for one in self.hurts.get(node, ()) if one.incident.mend > mended])
        for hurt in self.hurts.get(node, ()):
            hurt.shows_at = NOT_MET

    def _look_after(self, node: str) -> None:
        """Let a person look at a node that is faulty for long or repeatedly, even without a call."""
        if any(one.incident.mend is Mend.PERSON for one in self.hurts.get(node, ())):
            self._order(node)

    def _order(self, node: str) -> None:
        """Order a replacement of the part, once."""
        if node not in self._ordered:
            self._ordered.add(node)
            self.engine.at(after(self.engine.now, self._swap_s(node)), lambda: self._mend_by_hand(node))

    def _mend_by_hand(self, node: str) -> None:
        self.by_hand += 1
        self._ordered.discard(node)
        self._put(node, [])
        self._read(node)
        said = VerifyRequested(principal=PERSON, reason="another part was put in")
        self.engine.write("federation", "node", node, "verify-forwarded", said)

    def _find(self, node: str) -> None:
        """Let a person find that programs die on the node, close it, and repair it."""
        self._expected.discard(node)
        broken = [one for one in self.hurts.get(node, ()) if one.lasts]
        reading = self._readings.get(node)
        is_known = reading is not None and reading.phase is not HealthPhase.HEALTHY
        if not broken or is_known or node in self._cordoned:
            return
        needs_part = any(one.incident.mend is Mend.PERSON for one in broken)
        self._close(node, "cordon-forwarded", "programs die there")
        self.by_hand += 1
        takes_s = self._swap_s(node) if needs_part else self.scene.times.by_hand_s
        self.engine.at(after(self.engine.now, takes_s), lambda: self._open(node, mended=True))

    def _plan(self) -> None:
        """Request a node of the job for planned maintenance, in advance."""
        nodes = sorted(self.run.nodes - self._cordoned.keys())
        if not nodes or not self.run.is_running:
            return
        self.planned += 1
        node = nodes[int(uniform(self.scene.seed, "planned", self.planned) * len(nodes))]
        self._close(node, "drain-forwarded", PLANNED)
        self.engine.at(after(self.engine.now, self.scene.times.planned_s), lambda: self._open(node, mended=False))

    def _close(self, node: str, name: str, reason: str) -> None:
        self._cordoned[node] = reason
        self.engine.write("federation", "node", node, name, CordonRequested(principal=PERSON, reason=reason))

    def _open(self, node: str, *, mended: bool) -> None:
        if mended:
            self._put(node, [])
        del self._cordoned[node]
        request = CordonRequested(principal=PERSON, reason="done")
        self.engine.write("federation", "node", node, "resume-forwarded", request)

    def _swap_s(self, node: str) -> float:
        return lognormal(self.scene.times.swap_s, REPAIR_SIGMA, self.scene.seed, "swap", node, self.by_hand)
