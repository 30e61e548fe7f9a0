"""The scaler's core in virtual time, in a cluster of which the test says what happens."""

import dataclasses
from collections.abc import Iterable, Mapping

from kit.log import CLUSTER, START, VirtualService
from muster.core import Draft, Fact
from muster.core.settings import ComposerSettings, GroupSettings, ModelSettings, ScalingSettings
from muster.core.virtual import recover
from muster.fabric.layout import device_uuids, node_name
from muster.scaler.core import ScalerCore
from muster.scaler.core.groups import ScalingConfig
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.devices import AttachmentPhase, Origin, PoolModel
from muster.schemas.facts.composability import RequestRefused
from muster.schemas.facts.device import (
    AttachmentFailed,
    AttachmentRequested,
    AttachmentState,
    CallStarted,
    DetachWanted,
    DeviceAttached,
    DeviceDetached,
    DeviceOnline,
    DeviceVisible,
)
from muster.schemas.facts.fabric import FabricState, FabricSurveyed
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobRouted,
    JobState,
    JobUnschedulable,
)
from muster.schemas.facts.node import (
    DrainRequest,
    GrantState,
    NodeJoined,
    NodeLeft,
    NodeState,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.queue import QueueChanged, QueueSpec, QueueState
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup
from muster.schemas.registry import STATE_NAME

FABRIC, MODEL = "f0", "H100"


def composable(name: str = "comp", **values: object) -> GroupSettings:
    """A composable group of nodes with 16 cores and 64 GiB that take up to 4 GPUs."""
    spec = {
        "nodes_max": 4, "gpus_max": 4, "gpu_models": (MODEL,), "cpu_milli": 16_000, "memory_mib": 65_536,
        "fabric": FABRIC,
    } | values  # fmt: skip
    return GroupSettings(name=name, composable=True, **spec)


def ordinary(name: str = "ord", **values: object) -> GroupSettings:
    """A group of nodes with 32 cores, 256 GiB and 2 GPUs each."""
    spec = {
        "nodes_max": 4, "gpus": 2, "gpu_models": (MODEL,), "cpu_milli": 32_000, "memory_mib": 262_144,
    } | values  # fmt: skip
    return GroupSettings(name=name, **spec)


def config(
    *groups: GroupSettings,
    models: Mapping[str, ModelSettings] = {},
    composer: ComposerSettings | None = None,
    **values: object,
) -> ScalingConfig:
    """What the scaler may do."""
    settings = ScalingSettings(groups=groups, models=dict(models), **values)
    return ScalingConfig(
        settings, frozenset(group.fabric for group in groups if group.fabric), composer or ComposerSettings()
    )


def job(name: str, *, queue: str = "lab", replicas: int = 1, gpus: int = 1, **spec: object) -> Job:
    """A job of one task group."""
    keys = ("gpu_milli", "cpu_milli", "memory_mib", "gpu_models", "min_replicas")
    group = {key: spec.pop(key) for key in keys if key in spec}
    groups = spec.pop("task_groups", None) or (
        TaskGroup(replicas=replicas, gpus=0 if "gpu_milli" in group else gpus, **group),
    )
    return Job(
        id=ids.job_id(team="lab", principal="ada", idempotency_key=name),
        spec=JobSpec(name=name, team="lab", queue=queue, task_groups=groups, **spec),
        principal="ada",
        idempotency_key=name,
        body_hash="",
        submitted_at=START,
        trace=ids.traceparent(ids.trace_id(name), ids.span_id(name)),
    )


class VirtualScaler(VirtualService[ScalerCore]):
    """nodes, grants, jobs, queues, attachments, pools: what others would record in a checkpoint."""

    def __init__(self, settings: ScalingConfig, *, pool: int = 0, queues: Iterable[str] = ("lab",)) -> None:
        super().__init__("scaler", ScalerCore(settings))
        self.settings = settings
        self.watch = self._note_request
        self.nodes: dict[str, NodeState] = {}
        self.grants: dict[tuple[str, str], GrantState] = {}
        self.jobs: dict[str, JobState] = {}
        self.queues: dict[str, QueueState] = {}
        self.attachments: dict[str, AttachmentState] = {}
        self.pools: dict[str, FabricState] = {}
        for name in queues:
            self.queue(name)
        if pool:
            self.survey(free=pool)

    # --- what happens ---

    def queue(self, name: str, **spec: object) -> None:
        """A queue is made, or is another one."""
        queue = QueueSpec(name=name, **spec)
        self.write("scheduler", "queue", name, "changed", QueueChanged(spec=queue))
        self.queues[name] = QueueState(spec=queue, changed_at=self.now)

    def survey(self, *, free: int, attached: int = 0, model: str = MODEL, fabric: str = FABRIC) -> None:
        """The composer tells of a pool of one model; other models are as they were."""
        told = PoolModel(model=model, free=free, attached=attached)
        pool = self.pools.get(fabric, FabricState()).pool | {(told.type, model): told}
        self.write("composer", "fabric", fabric, "surveyed", FabricSurveyed(pool=tuple(pool.values())))
        self.pools[fabric] = FabricState(pool=pool, surveyed=True)

    def join(
        self, group: str, index: int, *, gpus: int = 0, model: str = MODEL, rack: str = "", release: bool = True
    ) -> str:
        """A node joins, and is released. GPUs of a composable one are found attached."""
        spec = self.settings.groups[group]
        name = node_name(group, index)
        description = NodeJoined(
            cpu_milli=spec.cpu_milli,
            memory_mib=spec.memory_mib,
            gpu_model=model if gpus else "",
            gpu_uuids=device_uuids(name, gpus),
            domains=(("rack", rack),) if rack else (),
            group=group,
            machine=f"m-{name}" if spec.composable else "",
        )
        self.show(name, description)
        if spec.composable:
            for uuid in description.gpu_uuids:
                self._found(name, uuid, model)
        if release:
            self.release("node", name)
        return name

    def show(self, name: str, description: NodeJoined) -> None:
        """The node is so."""
        known = self.nodes.get(name)
        fact = self.write("agent", "node", name, "joined", description)
        self.nodes[name] = NodeState(description=description, last_fact=fact.id)
        if known is None:
            self.grants["node", name] = GrantState(released=False)
        elif self.grants["node", name].released:
            for uuid in set(description.present.values()) - set(known.description.present.values()):
                self.grants["device", uuid] = GrantState(released=False)

    def release(self, kind: str, name: str) -> None:
        """The scheduler lets it be used."""
        self.write("scheduler", kind, name, "released", Released())
        known = self.grants.get((kind, name), GrantState(released=False))
        requests = tuple(request for request in known.wishes if not request.answered)
        self.grants[kind, name] = GrantState(released=True, wishes=requests)

    def leave(self, name: str) -> None:
        """The node is gone."""
        self.write("agent", "node", name, "left", NodeLeft())
        del self.nodes[name], self.grants["node", name]

    def submit(self, name: str, *, reason: str = "gpu", detail: str = "gpu: none free", **spec: object) -> Job:
        """A job comes, is queued, and cannot be placed (unless the reason is "")."""
        one = job(name, **spec)
        self.write("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER), trace=one.trace)
        self.write(
            "scheduler", "job", one.id, "queued", JobQueued(queue=one.spec.queue_name, attempt=1), trace=one.trace
        )
        self.jobs[one.id] = JobState(
            job=one, phase=Phase.QUEUED, queue=one.spec.queue_name, queued_at=self.now, routed_seq=len(self.log) - 1,
            last_fact=self.log[-1].id,
        )  # fmt: skip
        if reason:
            self.told(one, reason, detail)
        return one

    def told(self, one: Job, reason: str, detail: str = "") -> Fact:
        """The scheduler says why the job waits."""
        payload = JobUnschedulable(reason=reason, detail=detail)
        fact = self.write("scheduler", "job", one.id, "unschedulable", payload, trace=one.trace)
        self._job(one, reason=reason, detail=detail, explained_at=self.now)
        return fact

    def place(self, one: Job, *places: tuple[str, tuple[int, ...]]) -> None:
        """The job gets these devices, one replica each."""
        slots = tuple(
            Slot(group=0, replica=replica, node=node, devices=devices, gpu_milli=1000 if devices else 0)
            for replica, (node, devices) in enumerate(places)
        )
        self.write("scheduler", "job", one.id, "placed", JobPlaced(attempt=1, slots=slots), trace=one.trace)
        self._job(one, phase=Phase.PLACED, slots=slots, reason="", detail="")

    def fill(self, name: str, node: str, devices: tuple[int, ...], **spec: object) -> Job:
        """A job holds these devices of a node."""
        one = self.submit(name, reason="", gpus=len(devices), **spec)
        self.place(one, (node, devices))
        return one

    def end(self, one: Job) -> None:
        """The job is over."""
        self.write("scheduler", "job", one.id, "succeeded", JobFinished(attempt=1), trace=one.trace)
        del self.jobs[one.id]

    # --- the composer, as the scaler sees it ---

    def accept(self, fact: Fact) -> list[str]:
        """The composer begins an attachment for every device of a choice. Returns their names."""
        assert isinstance(fact.payload, ScaleChosen)
        names = []
        for part in fact.payload.parts:
            for _ in range(part.count):
                name = f"a{len(self.attachments) + 1:04d}"
                requested = AttachmentRequested(
                    request=fact.subject_id, model=part.device_model, node=part.node, fabric=part.fabric,
                    machine=f"m-{part.node}", origin=Origin.SCALER,
                )  # fmt: skip
                self.write("composer", "attachment", name, "requested", requested)
                self.attachments[name] = AttachmentState(
                    requested=requested, phase=AttachmentPhase.REQUESTED, since=self.now
                )
                names.append(name)
        return names

    def attached(self, name: str) -> str:
        """The fabric attached the device, its node does not show it yet. Returns its uuid."""
        requested, uuid = self.attachments[name].requested, f"GPU-{name}"
        payload = DeviceAttached(device_uuid=uuid, device_id=f"d-{name}", node=requested.node, model=requested.model)
        self._move(name, "attached", payload, AttachmentPhase.ATTACHED, device_uuid=uuid)
        self._in_pool(requested.fabric, requested.model, -1)
        return uuid

    def online(self, name: str) -> str:
        """The device goes all its way until it may be used. Returns its uuid."""
        requested = self.attachments[name].requested
        self._move(name, "attaching", CallStarted(attempt=1, deadline_at=self.now), AttachmentPhase.ATTACHING)
        uuid = self.attached(name)
        node = self.nodes[requested.node].description
        shown = node.model_copy(update={"gpu_uuids": (*node.gpu_uuids, uuid), "gpu_model": requested.model})
        self.show(requested.node, shown)
        self._move(name, "visible", DeviceVisible(), AttachmentPhase.VISIBLE)
        self.release("device", uuid)
        self._move(name, "online", DeviceOnline(), AttachmentPhase.ONLINE)
        return uuid

    def attach_fails(self, name: str) -> None:
        """One attachment is over."""
        self.write("composer", "attachment", name, "failed", AttachmentFailed(reason="timed out"))
        del self.attachments[name]

    def refuse(self, choice: str, *, field: str = "size", reason: str = "the pool is empty") -> None:
        """The composer says no to a choice."""
        self.write("composer", "composability", choice, "refused", RequestRefused(field=field, reason=reason))

    def detach(self, uuid: str) -> None:
        """A device goes back to its pool."""
        name = next(name for name, one in self.attachments.items() if one.device_uuid == uuid)
        requested = self.attachments[name].requested
        self._move(name, "detach-wanted", DetachWanted(request_id=f"{name}-1"), AttachmentPhase.WITHHOLDING)
        self.write("composer", "attachment", name, "detached", DeviceDetached(device_uuid=uuid, node=requested.node))
        del self.attachments[name]
        self._in_pool(requested.fabric, requested.model, 1)
        node = self.nodes[requested.node].description
        if uuid in node.gpu_uuids[-1:]:
            left = node.gpu_uuids[:-1]
            self.show(
                requested.node,
                node.model_copy(update={"gpu_uuids": left, "gpu_model": requested.model if left else ""}),
            )

    def withheld(self, kind: str, name: str, request_id: str) -> None:
        """The scheduler gives it away."""
        self.write("scheduler", kind, name, "withheld", Withheld(request_id=request_id))

    # --- what is seen ---

    def recover(self) -> ScalerCore:
        """A core that folded a checkpoint of now, everybody's part of it."""
        grants = [Draft(kind, name, STATE_NAME, one) for (kind, name), one in self.grants.items()]
        parts = [
            self._states("scheduler", "queue", self.queues),
            self.state_facts("scheduler", grants),
            self._states("scheduler", "job", self.jobs),
            self._states("agent", "node", self.nodes),
            self._states("composer", "attachment", self.attachments),
            self._states("composer", "fabric", self.pools),
            self.snapshot(),
        ]
        return recover(ScalerCore(self.settings), [fact for part in parts for fact in part])

    def refold(self) -> ScalerCore:
        """A core that folded the same log and decided nothing."""
        return recover(ScalerCore(self.settings), (), self.log)

    # --- inside ---

    def _states(self, writer: str, kind: str, states: Mapping[str, Payload]) -> list[Fact]:
        return self.state_facts(writer, [Draft(kind, name, STATE_NAME, one) for name, one in states.items()])

    def _note_request(self, fact: Fact) -> None:
        """What the scheduler would keep of requests to withhold, for a checkpoint."""
        key, asked = (fact.kind, fact.subject_id), fact.payload
        if key not in self.grants:
            return
        known = self.grants[key]
        requests = known.wishes
        if isinstance(asked, WithholdRequested):
            requests = (*requests, DrainRequest(request_id=asked.request_id, fact=fact.id))
        elif isinstance(asked, WithholdWithdrawn):
            mine = next((request for request in requests if request.request_id == asked.request_id), None)
            if mine is not None and (asked.after_withheld or not mine.answered):
                requests = tuple(request for request in requests if request is not mine)
                known = known.model_copy(update={"released": known.released and not mine.answered})
        elif isinstance(asked, Withheld):
            requests = tuple(
                request.model_copy(update={"answered": request.answered or request.request_id == asked.request_id})
                for request in requests
            )
        self.grants[key] = known.model_copy(update={"wishes": requests})

    def _job(self, one: Job, **changes: object) -> None:
        self.jobs[one.id] = dataclasses.replace(self.jobs[one.id], **changes)

    def _move(self, name: str, word: str, payload: Payload, phase: AttachmentPhase, **changes: object) -> None:
        self.write("composer", "attachment", name, word, payload)
        self.attachments[name] = dataclasses.replace(
            self.attachments[name], **{"phase": phase, "since": self.now} | changes
        )

    def _found(self, node: str, uuid: str, model: str) -> None:
        name = f"a{len(self.attachments) + 1:04d}"
        requested = AttachmentRequested(model=model, node=node, fabric=FABRIC, machine=f"m-{node}", origin=Origin.FOUND)
        self.write("composer", "attachment", name, "requested", requested)
        self.attachments[name] = AttachmentState(requested=requested, phase=AttachmentPhase.REQUESTED)
        for word, payload, phase in (
            (
                "attached",
                DeviceAttached(device_uuid=uuid, device_id=f"d-{uuid}", node=node, model=model),
                AttachmentPhase.ATTACHED,
            ),
            ("visible", DeviceVisible(), AttachmentPhase.VISIBLE),
            ("online", DeviceOnline(), AttachmentPhase.ONLINE),
        ):
            self._move(name, word, payload, phase, device_uuid=uuid)

    def _in_pool(self, fabric: str, model: str, more: int) -> None:
        state = self.pools[fabric]
        pool = {
            kind: entry.model_copy(update={"free": entry.free + more, "attached": entry.attached - more})
            if entry.model == model
            else entry
            for kind, entry in state.pool.items()
        }
        self.pools[fabric] = dataclasses.replace(state, pool=pool)
