"""The composer's core in virtual time, over a fabric and in a cluster of which the test says what happens."""

from collections.abc import Iterable

from kit.composer_fabrics import A100, CXL, H100, FakeFabrics, machine
from kit.log import VirtualService
from muster.composer.core.config import ComposerConfig, FabricConfig, GroupConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.limits import Bounds
from muster.core import NS_PER_S, Draft, Fact, Instant
from muster.core.virtual import recover
from muster.schemas.devices import CXL_MEMORY, GPU, ComposabilitySpec
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, DetachRequested
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
from muster.schemas.registry import STATE_NAME

START = Instant(2_000_000_000 * NS_PER_S)
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
JOB = "A" * 26
CALL_S = 60.0
BOUNDS = Bounds(attempts_max=3, backoff_s=2.0, breaker_failures=4, orphan_s=100.0)


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


class VirtualComposer(VirtualService[ComposerCore]):
    """descriptions, jobs: what the agent and the scheduler would record in a checkpoint."""

    def __init__(self, settings: ComposerConfig | None = None) -> None:
        self.settings = settings or config()
        self.fabrics = FakeFabrics()
        self.descriptions: dict[str, NodeJoined] = {}
        self.jobs: dict[str, JobState] = {}
        super().__init__("composer", self.new_core(), cluster="sim", start=START)

    def new_core(self) -> ComposerCore:
        """One that has folded nothing."""
        return ComposerCore(self.fabrics, self.settings)

    def advance_to(self, until: Instant) -> None:
        """Let time pass up to and with `until`; what was asked of fabrics at the end is seen."""
        super().advance_to(until)
        self.settle()

    # --- the cluster around it -----------------------------------------------------------------------------------

    def node(self, name: str, *, group: str = "composable", released: bool = True, memory_mib: int = 524_288) -> None:
        description = NodeJoined(cpu_milli=64_000, memory_mib=memory_mib, group=group, machine=machine(name))
        self.descriptions[name] = description
        self.write("agent", "node", name, "joined", description)
        if released:
            self.write("scheduler", "node", name, "released", Released())

    def show(self, node: str, *uuids: str, model: str = A100, memory: tuple[str, ...] = ()) -> None:
        """The node shows exactly these devices."""
        change = {"gpu_uuids": uuids, "gpu_model": model if uuids else "", "memory_uuids": memory}
        self.descriptions[node] = self.descriptions[node].model_copy(update=change)
        self.write("agent", "node", node, "joined", self.descriptions[node])

    def leave(self, node: str) -> None:
        self.write("agent", "node", node, "left", NodeLeft(reason="scaled down"))

    def release(self, uuid: str, kind: str = "device") -> None:
        self.write("scheduler", kind, uuid, "released", Released())

    def withhold(self) -> None:
        """The scheduler answers every request to withhold that has no answer: what is held only by force."""
        answered = {fact.payload.request_id for fact in self.log if isinstance(fact.payload, Withheld)}
        for fact in tuple(self.log):
            if isinstance(fact.payload, WithholdRequested) and fact.payload.request_id not in answered:
                holders = self.holders(fact.kind, fact.subject_id)
                if holders and not fact.payload.force:
                    continue
                payload = Withheld(request_id=fact.payload.request_id, forced=bool(holders), holders=holders)
                self.write("scheduler", fact.kind, fact.subject_id, "withheld", payload)

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

    def hold(self, node: str, *indexes: int, counted: int = 0, job: str = JOB, cpu_milli: int = 1_000) -> None:
        """A job that holds nothing gets these devices. counted: or so many that the kubelet picks."""
        assert job not in self.jobs, f"{job} holds something already"
        spec = JobSpec(
            name="j", team="t", command=("run",),
            task_groups=(TaskGroup(gpus=len(indexes) or counted, cpu_milli=cpu_milli, memory_mib=1_024),),
        )  # fmt: skip
        described = Job(id=job, spec=spec, principal="ann", idempotency_key="k", body_hash="h", trace=TRACE)
        self.write("federation", "job", job, "routed", JobRouted(job=described, cluster="sim"))
        places = tuple(range(counted))
        slot = Slot(group=0, replica=0, node=node, devices=indexes, gpu_milli=1_000, gpus=counted, places=places)
        self.write("scheduler", "job", job, "placed", JobPlaced(attempt=1, slots=(slot,)))
        self.jobs[job] = JobState(job=described, phase=Phase.PLACED, slots=(slot,))

    def let_go(self, job: str = JOB) -> None:
        self.write("scheduler", "job", job, "queued", JobQueued(queue="t", attempt=2))
        self.jobs.pop(job, None)

    # --- what people and the scaler ask --------------------------------------------------------------------------

    def compose(self, name: str = "r", *, may_force: bool = False, settle: bool = True, **spec: object) -> Fact:
        body = ComposabilitySpec.model_validate({"model": A100, "size": 1, **spec})
        asked = ComposeRequested(spec=body, principal="ann", may_force=may_force)
        fact = self.write("federation", "composability", name, "compose-forwarded", asked, trace=TRACE)
        if settle:
            self.settle()
        return fact

    def decompose(self, name: str = "r", *, force: bool = False, may_force: bool = False) -> None:
        asked = DecomposeRequested(principal="ann", force=force, may_force=may_force)
        self.write("federation", "composability", name, "decompose-forwarded", asked)
        self.settle()

    def detach(self, uuid: str, *, force: bool = False, may_force: bool = False) -> None:
        asked = DetachRequested(principal="ann", force=force, may_force=may_force)
        self.write("federation", "device", uuid, "detach-forwarded", asked)
        self.settle()

    def choose(self, name: str, *parts: tuple[str, int], devices: tuple[str, ...] = (), moves: bool = False) -> Fact:
        chosen = ScaleChosen(
            case=1, device_model=A100, devices=devices, moves=moves, jobs=(JOB,),
            parts=tuple(ScalePart(node=node, count=count, fabric="one", device_model=A100) for node, count in parts),
        )  # fmt: skip
        fact = "gpu-attach-chosen" if parts and not moves else "gpu-remove-chosen"
        said = self.write("scaler", "scale", name, fact, chosen, trace=TRACE)
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
            here = self.core.state.attachments.here(name)
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

    def phases(self) -> list[str]:
        return [one.phase.value for one in self.core.state.attachments.values()]

    def restart(self, *, from_checkpoint: bool = False) -> None:
        """Another leader: of the whole log, or of a checkpoint of now; calls of the old one are not its own."""
        parts = self.checkpoint() if from_checkpoint else list(self.log)
        self.fabrics.lose()
        core = self.new_core()
        begun = tuple(self.fabrics.begun)
        self.core = recover(core, parts)
        self.fabrics.lose()
        self.fabrics.begun[:] = begun

    def checkpoint(self) -> list[Fact]:
        """All services' parts, as facts."""
        state = self.core.state
        nodes = [
            Draft("node", name, STATE_NAME, NodeState(description=node.description, lost=node.is_lost))
            for name, node in state.hosts.nodes.items()
        ]
        grants = [
            Draft("node", name, STATE_NAME, GrantState(released=grant.is_released, withheld=grant.is_withheld))
            for name, grant in state.hosts.grants.nodes.items()
        ]
        grants += [Draft("job", job, STATE_NAME, one) for job, one in self.jobs.items()]
        grants += [
            Draft("device", uuid, STATE_NAME, GrantState(released=False)) for uuid in state.hosts.grants.unreleased
        ]
        return [*self.snapshot(), *self.state_facts("agent", nodes), *self.state_facts("scheduler", grants)]


def composer_with(
    *nodes: str, pool: int = 8, limit: int = 4, bounds: Bounds = BOUNDS, memory: int = 0
) -> VirtualComposer:
    """One fabric, a pool of A100s, and these nodes; surveyed."""
    made = VirtualComposer(config(limit=limit, bounds=bounds))
    made.fabrics.stock("one", (GPU, A100), pool)
    if memory:
        made.fabrics.stock("one", (CXL_MEMORY, CXL), memory)
    for node in nodes:
        made.node(node)
    made.advance(0)
    return made
