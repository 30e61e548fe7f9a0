"""A small composable cluster in virtual time: the real scheduler and scaler, and everybody else by script.

The script attaches, detaches, adds and removes as the composer and the agent would, and checks at every step what must
never happen: that a held device is taken, or that a limit or reserve is undercut.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kit.log import CLUSTER, START
from muster.core import Draft, Fact, after, seconds_between
from muster.core.settings import GroupSettings
from muster.core.virtual import VirtualCluster, recover
from muster.fabric.layout import node_name
from muster.scaler.core import ScalerCore
from muster.scaler.core.groups import ScalingConfig
from muster.scheduler.core import SchedulerCore
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.devices import AttachmentPhase, Origin, PoolModel
from muster.schemas.facts.device import (
    AttachmentRequested,
    AttachmentState,
    CallStarted,
    DetachGivenUp,
    DetachWanted,
    DeviceAttached,
    DeviceDetached,
    DeviceOnline,
    DeviceVisible,
)
from muster.schemas.facts.fabric import FabricState, FabricSurveyed
from muster.schemas.facts.job import JobPlaced, JobRouted, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLeft,
    NodeState,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job, JobSpec, TaskGroup
from muster.schemas.registry import STATE_NAME

FABRIC, MODEL = "rack", "A100"
PHASES = {
    "attached": AttachmentPhase.ATTACHED,
    "visible": AttachmentPhase.VISIBLE,
    "online": AttachmentPhase.ONLINE,
    "detach-wanted": AttachmentPhase.WITHHOLDING,
    "detach-given-up": AttachmentPhase.ONLINE,
    "detaching": AttachmentPhase.DETACHING,
}
USABLE = frozenset({"released", "online"})
TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed-out"})


@dataclass
class Device:
    """One GPU of the pool, for its whole life. spells: from when to when it was on a node, in seconds."""

    uuid: str
    attachment: str = ""
    node: str = ""
    phase: str = "pool"
    online_at: float = 0.0
    spells: list[tuple[float, float]] = field(default_factory=list)


class ScaledCluster(VirtualCluster):
    """said: how often each fact was written. Moments are seconds since the beginning.

    racing: scheduler and scaler decide at the same moment, neither knowing yet what the other says.
    """

    def __init__(self, config: ScalingConfig, *, nodes: int, pool: int, racing: bool = False) -> None:
        self.config, self.racing = config, racing
        self.group = next(iter(config.groups.values()))
        self.scheduler, self.scaler = SchedulerCore(cluster=CLUSTER), ScalerCore(config)
        super().__init__(CLUSTER, start=START, cores={"scheduler": self.scheduler, "scaler": self.scaler})
        self.watch = self._heed
        self.said: Counter[str] = Counter()
        self.devices = {f"GPU-{index:02d}": Device(f"GPU-{index:02d}") for index in range(pool)}
        self.nodes: dict[str, list[str]] = {}
        self.joined_at: dict[str, float] = {}
        self.node_spells: list[float] = []
        self.leaving: set[str] = set()
        self.running: dict[str, tuple[tuple[str, int], ...]] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        self.told: set[str] = set()
        self.refused: set[tuple[int, int]] = set()
        self.run_s: dict[str, float] = {}
        self.wanted: dict[str, list[str]] = {}
        self._count = 0
        queue = QueueChangeRequested(spec=QueueSpec(name="lab"), principal="root")
        self.write("federation", "queue", "lab", "change-forwarded", queue)
        found = FabricSurveyed(pool=(PoolModel(model=MODEL, free=pool),))
        self.write("composer", "fabric", FABRIC, "surveyed", found)
        for index in range(nodes):
            self._join(node_name(self.group.name, index + 1), "")

    # --- time ---

    @property
    def second(self) -> float:
        return seconds_between(START, self.now)

    def _in(self, seconds: float, happens: Callable[[], None]) -> None:
        self.at(after(self.now, seconds), happens)

    def step(self, *, ask_all: bool = False) -> list[Fact]:
        """Decide, and where they race, both before either has folded what the other decides."""
        if not self.racing:
            return super().step(ask_all=ask_all)
        decided = [(writer, self.decide(writer)) for writer in self.cores]
        return [fact for writer, drafts in decided for fact in self.append_all(writer, drafts)]

    def restart_scaler(self) -> None:
        """Another scaler takes over, from a checkpoint of this moment."""
        parts = [self.snapshot(), self.state_facts("agent", self._nodes())]
        parts.append(self.state_facts("composer", self._composer_parts()))
        self.scaler = recover(ScalerCore(self.config), [fact for part in parts for fact in part])
        self.replace("scaler", self.scaler)

    def _nodes(self) -> list[Draft]:
        newest = {fact.subject_id: fact for fact in self.log if fact.kind == "node" and fact.name == "joined"}
        return [
            Draft("node", name, STATE_NAME, NodeState(description=fact.payload, last_fact=fact.id))
            for name, fact in newest.items()
            if name in self.nodes and isinstance(fact.payload, NodeJoined)
        ]

    def _composer_parts(self) -> list[Draft]:
        """What the composer would record: attachments that are not over, and the pool."""
        live = dict[str, AttachmentState]()
        for fact in self.log:
            if fact.kind != "attachment":
                continue
            if isinstance(fact.payload, AttachmentRequested):
                live[fact.subject_id] = AttachmentState(requested=fact.payload, phase=AttachmentPhase.REQUESTED)
            elif isinstance(fact.payload, DeviceDetached):
                del live[fact.subject_id]
                continue
            change: dict[str, object] = {"since": fact.time}
            if fact.name in PHASES:
                change["phase"] = PHASES[fact.name]
            if isinstance(fact.payload, DeviceAttached):
                change["device_uuid"] = fact.payload.device_uuid
            live[fact.subject_id] = dataclasses.replace(live[fact.subject_id], **change)
        free = sum(one.phase in ("pool", "attaching") for one in self.devices.values())
        entry = PoolModel(model=MODEL, free=free, attached=len(self.devices) - free)
        found = [Draft("attachment", name, STATE_NAME, one) for name, one in live.items()]
        found.append(Draft("fabric", FABRIC, STATE_NAME, FabricState(pool={(entry.type, MODEL): entry}, surveyed=True)))
        return found

    # --- jobs ---

    def submit(self, name: str, *, gpus: int, run_s: float, cpu_milli: int = 1_000) -> str:
        one = Job(
            id=ids.job_id(team="lab", principal="ada", idempotency_key=name),
            spec=JobSpec(name=name, team="lab", task_groups=(TaskGroup(gpus=gpus, cpu_milli=cpu_milli),)),
            principal="ada",
            idempotency_key=name,
            body_hash="",
        )
        self.run_s[one.id], self.waiting[one.id] = run_s, (gpus, cpu_milli)
        self.write("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER))
        return one.id

    def _placed(self, job_id: str, placed: JobPlaced) -> None:
        self.waiting.pop(job_id)
        self.running[job_id] = tuple((slot.node, index) for slot in placed.slots for index in slot.devices)
        for node, index in self.running[job_id]:
            phase = self.devices[self.nodes[node][index]].phase
            assert phase in (*USABLE, "withholding"), f"a job got a device that is {phase}"
        started, exited = (
            PodsStarted(attempt=placed.attempt),
            PodsExited(attempt=placed.attempt, outcome=PodsOutcome.SUCCEEDED, exit_code=0, ran_s=1.0),
        )
        self._in(1.0, lambda: self._write_of_job(job_id, "pods-started", started))
        self._in(1.0 + self.run_s[job_id], lambda: self._write_of_job(job_id, "pods-exited", exited))

    def _write_of_job(self, job_id: str, name: str, payload: Payload) -> None:
        self.write("agent", "job", job_id, name, payload)

    # --- what is there ---

    def idle_online(self) -> list[Device]:
        """Devices that may be used, also those of which only the composer does not know it yet, and nobody holds."""
        held = {self.nodes[node][index] for places in self.running.values() for node, index in places}
        return [one for one in self.devices.values() if one.phase in USABLE and one.uuid not in held]

    def is_held(self, device: Device) -> bool:
        return any(self.nodes[node][index] == device.uuid for places in self.running.values() for node, index in places)

    def _join(self, name: str, scale: str) -> None:
        self.nodes[name] = []
        self.joined_at[name] = self.second
        self._show(name, scale)

    def _show(self, name: str, scale: str = "") -> None:
        """The agent describes the node: a hole keeps the places behind it."""
        uuids = self.nodes[name]
        while uuids and not uuids[-1]:
            uuids.pop()
        joined = NodeJoined(
            cpu_milli=self.group.cpu_milli,
            memory_mib=self.group.memory_mib,
            gpu_model=MODEL if any(uuids) else "",
            gpu_uuids=tuple(uuid or f"empty-{index}" for index, uuid in enumerate(uuids)),
            absent=tuple(index for index, uuid in enumerate(uuids) if not uuid),
            group=self.group.name,
            machine=f"m-{name}",
            scale=scale,
        )
        self.write("agent", "node", name, "joined", joined)

    def _leave(self, name: str) -> None:
        assert not any(self.nodes[name]), f"{name} leaves with its devices"
        assert not any(node == name for places in self.running.values() for node, _ in places)
        del self.nodes[name]
        self.leaving.discard(name)
        self.node_spells.append(self.second - self.joined_at.pop(name))
        self.write("agent", "node", name, "left", NodeLeft())

    # --- the composer ---

    def _attach(self, choice: str) -> None:
        """Attach the next wanted devices of a choice that lie in the pool."""
        for node in list(self.wanted[choice]):
            device = next((one for one in self.devices.values() if one.phase == "pool"), None)
            if device is None:
                return
            self.wanted[choice].remove(node)
            self._count += 1
            device.phase, device.node, device.attachment = "attaching", node, f"a{self._count}"
            request = AttachmentRequested(
                request=choice, model=MODEL, node=node, fabric=FABRIC, machine=f"m-{node}", origin=Origin.SCALER
            )
            self.write("composer", "attachment", device.attachment, "requested", request)
            self._in(self.config.model(MODEL).attach_s, lambda device=device: self._attached(device))

    def _attached(self, device: Device) -> None:
        device.phase = "attached"
        attached = DeviceAttached(device_uuid=device.uuid, device_id=device.uuid, node=device.node, model=MODEL)
        self.write("composer", "attachment", device.attachment, "attached", attached)
        uuids = self.nodes[device.node]
        if "" in uuids:
            uuids[uuids.index("")] = device.uuid
        else:
            uuids.append(device.uuid)
        assert len([uuid for uuid in uuids if uuid]) <= self.group.gpus_max
        self._show(device.node)
        self.write("composer", "attachment", device.attachment, "visible", DeviceVisible())
        device.phase = "visible"

    def _released(self, uuid: str) -> None:
        device = self.devices[uuid]
        if device.phase == "released":
            device.phase, device.online_at = "online", self.second
            self.write("composer", "attachment", device.attachment, "online", DeviceOnline())

    def _detach(self, uuid: str) -> None:
        device = self.devices[uuid]
        assert device.phase == "online", f"{uuid} was chosen to go and is {device.phase}"
        device.phase, request = "withholding", f"{device.attachment}-1"
        self.write("composer", "attachment", device.attachment, "detach-wanted", DetachWanted(request_id=request))
        self.write("composer", "device", uuid, "withhold-requested", WithholdRequested(request_id=request))
        self._in(self.config.settings.withhold_s, lambda: self._give_up(device, request))

    def _give_up(self, device: Device, request: str) -> None:
        if device.phase == "withholding" and request.startswith(device.attachment):
            device.phase = "online"
            self.write("composer", "device", device.uuid, "withhold-withdrawn", WithholdWithdrawn(request_id=request))
            self.write("composer", "attachment", device.attachment, "detach-given-up", DetachGivenUp())

    def _withheld(self, uuid: str) -> None:
        device = self.devices[uuid]
        if device.phase != "withholding":
            return
        assert not self.is_held(device), f"{uuid} is taken from a job"
        device.phase = "detaching"
        call = CallStarted(attempt=1, deadline_at=self.now, device_uuid=uuid)
        self.write("composer", "attachment", device.attachment, "detaching", call)
        self._in(self.config.model(MODEL).detach_s, lambda: self._detached(device))

    def _detached(self, device: Device) -> None:
        node, attachment = device.node, device.attachment
        device.spells.append((device.online_at, self.second))
        device.phase, device.node, device.attachment = "pool", "", ""
        uuids = self.nodes[node]
        uuids[uuids.index(device.uuid)] = ""
        self.write("composer", "attachment", attachment, "detached", DeviceDetached(device_uuid=device.uuid, node=node))
        self._show(node)
        for choice in list(self.wanted):
            self._attach(choice)

    # --- what it all means ---

    def _heed(self, fact: Fact) -> None:
        payload, name = fact.payload, fact.name
        self.said[name] += 1
        if fact.kind == "job":
            if isinstance(payload, JobPlaced):
                self._placed(fact.subject_id, payload)
            elif name in TERMINAL:
                self.running.pop(fact.subject_id, None)
                self.waiting.pop(fact.subject_id, None)
            elif name == "unschedulable":
                self.told.add(fact.subject_id)
        elif isinstance(payload, ScaleChosen):
            self._chosen(fact.subject_id, name, payload)
        elif name == "nothing-chosen" and fact.subject_id in self.waiting:
            self.refused.add(self.waiting[fact.subject_id])
        elif name == "ended" and fact.kind == "scale":
            self.wanted.pop(fact.subject_id, None)
        elif isinstance(payload, Withheld) and fact.kind == "device":
            self._in(0.0, lambda: self._withheld(fact.subject_id))
        elif isinstance(payload, Withheld):
            self.leaving.add(fact.subject_id)
            self._in(self.group.deprovision_s, lambda: self._leave(fact.subject_id))
        elif (
            isinstance(payload, Released) and fact.kind == "device" and self.devices[fact.subject_id].phase == "visible"
        ):
            self.devices[fact.subject_id].phase = "released"
            self._in(0.0, lambda: self._released(fact.subject_id))

    def _chosen(self, choice: str, name: str, chosen: ScaleChosen) -> None:
        if name == "node-add-chosen":
            assert chosen.node not in self.nodes
            assert len(self.nodes) < self.group.nodes_max
            self._in(self.group.provision_s, lambda: self._join(chosen.node, choice))
            return
        if name == "node-remove-chosen":
            self._check_node(chosen)
            return
        if chosen.devices:
            self._check_removal(chosen)
        for uuid in chosen.devices:
            self._in(0.0, lambda uuid=uuid: self._detach(uuid))
        if name == "gpu-attach-chosen":
            self.wanted[choice] = [part.node for part in chosen.parts for _ in range(part.count)]
            self._in(0.0, lambda: self._attach(choice))

    # --- what must never happen ---

    def _check_removal(self, chosen: ScaleChosen) -> None:
        group, idle = self.group, {one.uuid for one in self.idle_online()}
        if self.racing:
            return
        assert idle.issuperset(chosen.devices), "a device that is held or on its way is chosen to go"
        left_idle = len(idle) - len(chosen.devices)
        assert chosen.moves or left_idle >= group.warm_gpus, "the warm reserve is undercut"
        for uuid in chosen.devices:
            stood = self.second - self.devices[uuid].online_at
            assert stood >= self.config.settings.gpu_idle_s - 1e-6, f"{uuid} leaves after {stood} s"
        if not chosen.moves:
            assert not [job for job in self.waiting if self._could_use(job)], (
                "taken while a job waits that could use it"
            )
        for node in {self.devices[uuid].node for uuid in chosen.devices}:
            left = [uuid for uuid in self.nodes[node] if uuid and uuid not in chosen.devices]
            is_to_go = any(one.nodes and one.fits for one in chosen.alternatives)
            assert is_to_go or len(left) >= group.gpus_min, f"{node} is left with {len(left)} GPUs"

    def _could_use(self, job_id: str) -> bool:
        """Whether it waits for GPUs, and nobody has found that nothing helps who asks for the same."""
        asked = self.waiting[job_id]
        return asked[0] > 0 and asked not in self.refused and job_id in self.told

    def _check_node(self, chosen: ScaleChosen) -> None:
        assert not any(self.nodes[chosen.node])
        assert len(self.nodes) - len(self.leaving) > self.group.nodes_min, "fewer nodes than the least"
        stood = self.second - self.joined_at[chosen.node]
        assert stood >= max(self.config.settings.node_unneeded_s, self.config.settings.delay_after_add_s) - 1e-6


def composable(**values: object) -> GroupSettings:
    """Nodes with 8 cores that take up to 4 GPUs and come in 30 s."""
    spec = {
        "nodes_max": 3, "gpus_max": 4, "gpu_models": (MODEL,), "cpu_milli": 8_000, "memory_mib": 65_536,
        "fabric": FABRIC, "provision_s": 30.0, "deprovision_s": 5.0,
    } | values  # fmt: skip
    return GroupSettings(name="cdi", composable=True, **spec)
