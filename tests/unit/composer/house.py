"""A composer in virtual time over a fabric of which the test says what happens; the cluster around it by hand."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.fabrics import (
    AttachCall,
    AttachDone,
    Call,
    CallWentWrong,
    DetachCall,
    DetachDone,
    Look,
    Observation,
    Outcome,
    Surveyed,
    SurveyWentWrong,
)
from muster.composer.core.limits import Bounds
from muster.core import NS_PER_S, Draft, Fact, Instant, after
from muster.fabric.inventory import Inventory, MachineDevice
from muster.schemas.base import Payload
from muster.schemas.devices import CXL_MEMORY, GPU, ComposabilitySpec, Origin
from muster.schemas.facts.device import (
    CallFailure,
    ComposeRequested,
    DecomposeRequested,
    DetachRequested,
)
from muster.schemas.facts.job import JobPlaced, JobQueued, JobRouted, JobState
from muster.schemas.facts.node import (
    GrantState,
    NodeJoined,
    NodeLeft,
    NodeState,
    Released,
    Withheld,
    WithholdRequested,
)
from muster.schemas.facts.scale import ScaleChosen, ScalePart
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup

START = Instant(2_000_000_000 * NS_PER_S)
A100, H100, CXL = "NVIDIA-A100-PCIE-40GB", "H100", "CXL-128"
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
JOB = "A" * 26
CALL_S = 60.0
BOUNDS = Bounds(attempts_max=3, backoff_s=2.0, breaker_failures=4, orphan_s=100.0)


def device(number: int, *, model: str = A100, type_: str = GPU, memory_mib: int = 0) -> MachineDevice:
    return MachineDevice(f"res-{number}", f"{'CXL' if memory_mib else 'GPU'}-{number}", model, type_, memory_mib)


def machine(node: str) -> str:
    return f"machine-of-{node}"


class FakeFabrics:
    """Implements `Fabrics`. Nothing happens to a call before the test says so; looks show `free` and `on`.

    blind: looks fail so; dark: looks at these fabrics fail. slow: set to {}, looks are taken and not told before
    `show_slow_looks`.
    """

    def __init__(self) -> None:
        self.free: dict[str, Counter[tuple[str, str]]] = {}
        self.on: dict[str, dict[str, list[MachineDevice]]] = {}
        self.begun: list[Call] = []
        self.open: dict[tuple[str, int], Call] = {}
        self.acknowledged: list[tuple[str, int]] = []
        self.blind: CallFailure | None = None
        self.looked_at: list[Instant] = []
        self.dark: set[str] = set()
        self.slow: dict[str, Look] | None = None
        self._told: dict[tuple[str, int], Outcome] = {}
        self._wanted: dict[str, Instant] = {}
        self._looks: dict[str, Look] = {}
        self._numbers = 0

    def stock(self, fabric: str, kind: tuple[str, str], count: int) -> None:
        self.free.setdefault(fabric, Counter())[kind] += count
        self.on.setdefault(fabric, {})

    def place(self, fabric: str, machine_id: str, there: MachineDevice) -> MachineDevice:
        self.on.setdefault(fabric, {}).setdefault(machine_id, []).append(there)
        return there

    def carry_out(self, call: Call) -> None:
        if (call.order, call.attempt) not in self.open:
            self.begun.append(call)
            self.open[call.order, call.attempt] = call

    def is_under_way(self, order: str, attempt: int) -> bool:
        return (order, attempt) in self.open

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        look = self._looks.get(fabric)
        if self.slow is not None and fabric in self.slow:
            return  # somebody is looking
        if isinstance(look, Surveyed) and look.began_at >= not_before:
            self._wanted.pop(fabric, None)
        else:
            self._wanted[fabric] = not_before

    def observe(self, now: Instant) -> Sequence[Observation]:
        for fabric, not_before in tuple(self._wanted.items()):
            if not_before <= now:
                del self._wanted[fabric]
                (self._looks if self.slow is None else self.slow)[fabric] = self._look(fabric, now)
        return [*self._told.values(), *self._looks.values()]

    def acknowledge(self, order: str, attempt: int) -> None:
        self.acknowledged.append((order, attempt))
        self.open.pop((order, attempt), None)
        self._told.pop((order, attempt), None)

    def next_change(self) -> Instant | None:
        return Instant(0) if self._told else min(self._wanted.values(), default=None)

    # --- what the test says --------------------------------------------------------------------------------------

    @property
    def attaching(self) -> list[AttachCall]:
        return [call for call in self.open.values() if isinstance(call, AttachCall) and self._is_silent(call)]

    @property
    def detaching(self) -> list[DetachCall]:
        return [call for call in self.open.values() if isinstance(call, DetachCall) and self._is_silent(call)]

    def do(self, call: Call) -> MachineDevice | None:
        """The fabric carries it out; whoever called does not hear of it. None: there was nothing to take away."""
        if isinstance(call, AttachCall):
            self._numbers += 1
            memory_mib = 131_072 if call.type == CXL_MEMORY else 0
            new = device(self._numbers, model=call.model, type_=call.type, memory_mib=memory_mib)
            self.free[call.fabric][call.type, call.model] -= 1
            return self.place(call.fabric, call.machine, new)
        standing = self.on[call.fabric].get(call.machine, [])
        for there in standing:
            if there.device_id == call.device_id:
                standing.remove(there)
                self.free[call.fabric][there.type, there.model] += 1
                return there
        return None

    def finish(self, call: Call) -> MachineDevice | None:
        """The fabric carries it out, and says so."""
        there = self.do(call)
        key = call.order, call.attempt
        if isinstance(call, AttachCall):
            standing = self.on[call.fabric][call.machine]
            fitting = [one for one in standing if (one.type, one.model) == (call.type, call.model)]
            self._told[key] = AttachDone(*key, candidates=tuple(fitting), took_s=1.0)
        else:
            self._told[key] = DetachDone(*key, was_gone=there is None, took_s=1.0)
        return there

    def tell(self, call: Call, failure: CallFailure, error: str = "so it is") -> None:
        """The caller hears of a failure; what the fabric did is another matter."""
        self._told[call.order, call.attempt] = CallWentWrong(call.order, call.attempt, failure, error)

    def show_slow_looks(self) -> None:
        """What was seen since `slow` was set comes only now."""
        assert self.slow is not None
        self._looks.update(self.slow)
        self.slow = None

    def lose(self) -> None:
        """Another leader: whoever made the calls is gone."""
        for known in (self.open, self._told, self._wanted, self._looks):
            known.clear()

    def _is_silent(self, call: Call) -> bool:
        return (call.order, call.attempt) not in self._told

    def _look(self, fabric: str, now: Instant) -> Look:
        self.looked_at.append(now)
        if self.blind is not None or fabric in self.dark:
            return SurveyWentWrong(fabric, now, self.blind or CallFailure.UNAVAILABLE, "nobody there")
        machines = {name: tuple(there) for name, there in self.on.get(fabric, {}).items()}
        return Surveyed(fabric, now, Inventory(dict(self.free.get(fabric, {})), machines))


def config(*, limit: int = 4, bounds: Bounds = BOUNDS, fabrics: Iterable[str] = ("one",)) -> ComposerConfig:
    return ComposerConfig(
        fabrics=tuple(FabricConfig(name, limit=limit, call_s=CALL_S) for name in fabrics),
        groups=(
            GroupConfig("composable", "one", (A100, H100), gpus_max=4),
            GroupConfig("elsewhere", "two", (A100,), gpus_max=4),
        ),
        may_not_coexist=((A100, CXL),),
        bounds=bounds,
    )


@dataclass
class House:
    """Says facts, lets the composer decide, and keeps the log."""

    settings: ComposerConfig = field(default_factory=config)
    fabrics: FakeFabrics = field(default_factory=FakeFabrics)
    now: Instant = START
    log: list[Fact] = field(default_factory=list)
    descriptions: dict[str, NodeJoined] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.core = ComposerCore(self.fabrics, self.settings)

    def say(self, writer: str, kind: str, subject: str, name: str, payload: Payload, *, trace: str = "") -> Fact:
        return self._append(writer, Draft(kind, subject, name, payload, trace=trace))

    def _append(self, writer: str, draft: Draft) -> Fact:
        seq = len(self.log) + 1
        fact = Fact(
            f"f{seq}", seq, self.now, "sim", writer, draft.kind, draft.subject_id, draft.name, draft.causes,
            draft.trace, draft.payload,
        )  # fmt: skip
        self.log.append(fact)
        self.core.apply(fact)
        return fact

    def settle(self) -> list[Fact]:
        """Decide until there is nothing to say; what was said."""
        first = len(self.log)
        for _ in range(100):
            drafts = self.core.decide(self.now)
            if not drafts:
                return self.log[first:]
            for draft in drafts:
                self._append("composer", draft)
        raise AssertionError(f"no end: {drafts}")

    def wait(self, seconds: float) -> list[Fact]:
        """Let time pass, from wake-up to wake-up."""
        first, until = len(self.log), after(self.now, seconds)
        self.settle()
        for _ in range(10_000):
            due = self.core.next_wakeup()
            if due is None or due > until:
                break
            self.now = max(due, self.now)
            self.settle()
        else:
            raise AssertionError("woken again and again, and nothing to say")
        self.now = until
        self.settle()
        return self.log[first:]

    # --- the cluster around it -----------------------------------------------------------------------------------

    def node(self, name: str, *, group: str = "composable", released: bool = True, memory_mib: int = 524_288) -> None:
        description = NodeJoined(cpu_milli=64_000, memory_mib=memory_mib, group=group, machine=machine(name))
        self.descriptions[name] = description
        self.say("agent", "node", name, "joined", description)
        if released:
            self.say("scheduler", "node", name, "released", Released())

    def show(self, node: str, *uuids: str, model: str = A100, memory: tuple[str, ...] = ()) -> None:
        """The node shows exactly these devices."""
        change = {"gpu_uuids": uuids, "gpu_model": model if uuids else "", "memory_uuids": memory}
        self.descriptions[node] = self.descriptions[node].model_copy(update=change)
        self.say("agent", "node", node, "joined", self.descriptions[node])

    def leave(self, node: str) -> None:
        self.say("agent", "node", node, "left", NodeLeft(reason="scaled down"))

    def release(self, uuid: str, kind: str = "device") -> None:
        self.say("scheduler", kind, uuid, "released", Released())

    def withhold(self) -> None:
        """The scheduler answers every request to withhold that has no answer: what is held only by force."""
        answered = {fact.payload.request_id for fact in self.log if isinstance(fact.payload, Withheld)}
        for fact in tuple(self.log):
            if isinstance(fact.payload, WithholdRequested) and fact.payload.request_id not in answered:
                holders = self.holders(fact.kind, fact.subject_id)
                if holders and not fact.payload.force:
                    continue
                payload = Withheld(request_id=fact.payload.request_id, forced=bool(holders), holders=holders)
                self.say("scheduler", fact.kind, fact.subject_id, "withheld", payload)

    def holders(self, kind: str, name: str) -> tuple[str, ...]:
        """Jobs that hold something of the device, or of the node."""
        places = [(node, index) for node, at in self.descriptions.items() for index, uuid in at.present.items()
                  if name in (uuid, node)]  # fmt: skip
        return tuple(
            job
            for job, state in self.jobs.items()
            for slot in state.slots
            if any(slot.node == node and (kind == "node" or index in slot.devices) for node, index in places)
        )

    def hold(self, node: str, *indexes: int, job: str = JOB, cpu_milli: int = 1_000) -> None:
        """A job holds these devices."""
        spec = JobSpec(
            name="j", team="t", command=("run",),
            task_groups=(TaskGroup(gpus=len(indexes), cpu_milli=cpu_milli, memory_mib=1_024),),
        )  # fmt: skip
        described = Job(id=job, spec=spec, principal="ann", idempotency_key="k", body_hash="h", trace=TRACE)
        self.say("federation", "job", job, "routed", JobRouted(job=described, cluster="sim"))
        slot = Slot(group=0, replica=0, node=node, devices=indexes, gpu_milli=1_000)
        self.say("scheduler", "job", job, "placed", JobPlaced(attempt=1, slots=(slot,)))
        slots = (*(self.jobs[job].slots if job in self.jobs else ()), slot)
        self.jobs[job] = JobState(job=described, phase=Phase.PLACED, slots=slots)

    def let_go(self, job: str = JOB) -> None:
        self.say("scheduler", "job", job, "queued", JobQueued(queue="t", attempt=2))
        self.jobs.pop(job, None)

    # --- what people and the scaler ask --------------------------------------------------------------------------

    def compose(self, name: str = "r", *, may_force: bool = False, settle: bool = True, **spec: object) -> Fact:
        body = ComposabilitySpec.model_validate({"model": A100, "size": 1, **spec})
        asked = ComposeRequested(spec=body, principal="ann", may_force=may_force)
        fact = self.say("federation", "composability", name, "compose-forwarded", asked, trace=TRACE)
        if settle:
            self.settle()
        return fact

    def decompose(self, name: str = "r", *, force: bool = False, may_force: bool = False) -> None:
        asked = DecomposeRequested(principal="ann", force=force, may_force=may_force)
        self.say("federation", "composability", name, "decompose-forwarded", asked)
        self.settle()

    def detach(self, uuid: str, *, force: bool = False, may_force: bool = False) -> None:
        asked = DetachRequested(principal="ann", force=force, may_force=may_force)
        self.say("federation", "device", uuid, "detach-forwarded", asked)
        self.settle()

    def choose(self, name: str, *parts: tuple[str, int], devices: tuple[str, ...] = (), moves: bool = False) -> Fact:
        chosen = ScaleChosen(
            case=1, device_model=A100, devices=devices, moves=moves, jobs=(JOB,),
            parts=tuple(ScalePart(node=node, count=count, fabric="one", device_model=A100) for node, count in parts),
        )  # fmt: skip
        fact = "gpu-attach-chosen" if parts and not moves else "gpu-remove-chosen"
        said = self.say("scaler", "scale", name, fact, chosen, trace=TRACE)
        self.settle()
        return said

    # --- short cuts ------------------------------------------------------------------------------------------------

    def bring(self, name: str = "r", **spec: object) -> list[str]:
        """A request all of whose devices are online; their uuids."""
        self.compose(name, **spec)
        uuids = []
        while self.fabrics.attaching:
            calls = self.fabrics.attaching
            uuids += [there.device_uuid for call in calls if (there := self.fabrics.finish(call)) is not None]
            self.settle()
        self.plug()
        return uuids

    def plug(self) -> None:
        """Every node shows and may use what is attached to it."""
        for name, description in tuple(self.descriptions.items()):
            here = self.core.state.here(name)
            there = [one for one in here if one.has_device]
            gpus = tuple(one.device_uuid for one in there if one.is_gpu)
            memory = tuple(one.device_uuid for one in there if not one.is_gpu)
            if (gpus, memory) != (description.gpu_uuids, description.memory_uuids):
                self.show(name, *gpus, memory=memory)
                for uuid in gpus:
                    self.release(uuid)
        self.settle()

    def withdraw_all(self) -> None:
        """Everything that is asked to go goes."""
        self.withhold()
        self.settle()
        for call in self.fabrics.detaching:
            self.fabrics.finish(call)
        self.settle()

    # --- reading ---------------------------------------------------------------------------------------------------

    def names(self, kind: str = "attachment", subject: str | None = None) -> list[str]:
        """Names of all facts of a kind, oldest first."""
        return [fact.name for fact in self.log if fact.kind == kind and subject in (None, fact.subject_id)]

    def last(self, name: str) -> Fact:
        return next(fact for fact in reversed(self.log) if fact.name == name)

    def phases(self) -> list[str]:
        return [one.phase.value for one in self.core.state.attachments.values()]

    def restart(self, *, from_checkpoint: bool = False) -> None:
        """Another leader: of the whole log, or of a checkpoint of now; calls of the old one are not its own."""
        parts = self.checkpoint() if from_checkpoint else list(self.log)
        self.fabrics.lose()
        self.core = ComposerCore(self.fabrics, self.settings)
        begun = tuple(self.fabrics.begun)
        for fact in parts:
            self.core.apply(fact)
        self.fabrics.lose()
        self.fabrics.begun[:] = begun

    def checkpoint(self) -> list[Fact]:
        """All services' parts, as facts."""
        drafts = [("composer", draft) for draft in self.core.snapshot()]
        for name, node in self.core.state.nodes.all.items():
            if node.description is not None:
                state = NodeState(description=node.description, lost=node.is_lost)
                drafts.append(("agent", Draft("node", name, "state-recorded", state)))
            grant = GrantState(released=node.is_released, withheld=node.is_withheld)
            drafts.append(("scheduler", Draft("node", name, "state-recorded", grant)))
        drafts += [("scheduler", Draft("job", job, "state-recorded", state)) for job, state in self.jobs.items()]
        unreleased = GrantState(released=False)
        devices = self.core.state.nodes.unreleased
        drafts += [("scheduler", Draft("device", uuid, "state-recorded", unreleased)) for uuid in devices]
        return [
            Fact(
                f"p{index}", 0, self.now, "sim", writer, draft.kind, draft.subject_id, draft.name, (), draft.trace,
                draft.payload,
            )
            for index, (writer, draft) in enumerate(drafts)
        ]  # fmt: skip


def house(*nodes: str, pool: int = 8, limit: int = 4, bounds: Bounds = BOUNDS, memory: int = 0) -> House:
    """One fabric, a pool of A100s, and these nodes; surveyed."""
    made = House(config(limit=limit, bounds=bounds))
    made.fabrics.stock("one", (GPU, A100), pool)
    if memory:
        made.fabrics.stock("one", (CXL_MEMORY, CXL), memory)
    for node in nodes:
        made.node(node)
    made.wait(0)
    return made


__all__ = ["A100", "CXL", "H100", "JOB", "House", "Origin", "device", "house", "machine"]
