"""A small composable cluster for the scaler's removing cases: its state, folded from what others would say."""

from kit.log import CLUSTER, START
from muster.core import Instant, after, seconds_between
from muster.core.settings import GroupSettings, ModelSettings, ScalingSettings
from muster.core.virtual import VirtualCluster
from muster.fabric.layout import device_uuids
from muster.scaler.core.core import Policies, fold
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.state import State
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.devices import GPU, Origin, PoolModel
from muster.schemas.facts.device import AttachmentRequested, DeviceAttached, DeviceOnline
from muster.schemas.facts.fabric import FabricSurveyed
from muster.schemas.facts.job import JobFinished, JobPlaced, JobQueued, JobRouted, JobUnschedulable
from muster.schemas.facts.node import NodeJoined, Released
from muster.schemas.facts.queue import QueueChanged, QueueSpec
from muster.schemas.facts.scale import ScaleEnded
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup

CDI = GroupSettings(
    name="cdi", composable=True, nodes_max=4, gpus_max=4, gpu_models=("A100",), fabric="rack",
    cpu_milli=16_000, memory_mib=64_000, provision_s=40.0, deprovision_s=10.0, idle_w=200.0,
)  # fmt: skip
PLAIN = GroupSettings(name="plain", nodes_max=4, gpus=2, gpu_models=("H100",), cpu_milli=16_000, memory_mib=64_000)


def config(*groups: GroupSettings, mode: str = "embedded", **times: float) -> ScalingConfig:
    """Nodes are unneeded after 60 s, GPUs idle for long after 100 s, unless `times` says otherwise."""
    known = {"gpu_idle_s": 100.0, "node_unneeded_s": 60.0, "delay_after_add_s": 0.0, **times}
    models = {"A100": ModelSettings(idle_w=50.0, attach_s=20.0, detach_s=10.0)}
    settings = ScalingSettings(mode=mode, groups=groups or (CDI, PLAIN), models=models, **known)
    return ScalingConfig(settings, frozenset({"rack"}))


def job_of(name: str, **spec: object) -> Job:
    """A job of one task group."""
    keys = ("gpus", "gpu_milli", "cpu_milli", "memory_mib", "gpu_models", "replicas")
    group = {key: spec.pop(key) for key in keys if key in spec}
    trace = ids.traceparent(ids.trace_id(name), ids.span_id(name))
    return Job(
        id=ids.job_id(team="lab", principal="ada", idempotency_key=name),
        spec=JobSpec(name=name, team="lab", task_groups=(TaskGroup(**group),), **spec),
        principal="ada",
        idempotency_key=name,
        body_hash="",
        trace=trace,
    )


class ScalerState(VirtualCluster):
    """state: has folded all that happened; policies: ask it."""

    def __init__(self, scaling: ScalingConfig | None = None) -> None:
        self.state = State(scaling or config())
        self.policies = Policies(self.state)
        super().__init__(CLUSTER, start=START, watch=lambda fact: fold(self.state, fact))
        self.write("scheduler", "queue", "lab", "changed", QueueChanged(spec=QueueSpec(name="lab")))

    @property
    def second(self) -> float:
        """Seconds since the log began."""
        return seconds_between(START, self.now)

    def at_second(self, second: float) -> Instant:
        """Go on to this moment, with the state as a decision finds it."""
        self.now = after(START, second)
        self.policies.future.settle()
        return self.now

    # --- nodes and devices ---

    def node(self, name: str, gpus: int = 0, *, model: str = "A100", group: str = "cdi", fresh: bool = False) -> None:
        """A node comes, may be used, and has devices that its fabric attached at the very start (or just now)."""
        uuids = device_uuids(name, gpus)
        if group == "cdi":
            for uuid in uuids:
                self.attachment(uuid, name, model, is_online=not fresh)
        self.write("agent", "node", name, "joined", self.description(name, uuids, model=model, group=group))
        self.write("scheduler", "node", name, "released", Released())
        for uuid in [uuid for uuid in uuids if uuid in self.state.cluster.grants.devices]:
            self.write("scheduler", "device", uuid, "released", Released())

    def description(self, name: str, uuids: tuple[str, ...], *, model: str, group: str) -> NodeJoined:
        return NodeJoined(
            cpu_milli=16_000,
            memory_mib=64_000,
            gpu_model=model if uuids else "",
            gpu_uuids=uuids,
            group=group,
            machine=f"machine-{name}",
        )

    def attachment(
        self,
        uuid: str,
        node: str,
        model: str,
        *,
        is_online: bool = True,
        origin: Origin = Origin.FOUND,
        device_type: str = GPU,
    ) -> None:
        request = AttachmentRequested(
            model=model,
            node=node,
            fabric="rack",
            machine=f"machine-{node}",
            origin=origin,
            type=device_type,
            request="mine",
        )
        self.write("composer", "attachment", f"a-{uuid}", "requested", request)
        attached = DeviceAttached(device_uuid=uuid, device_id=f"d-{uuid}", node=node, model=model)
        self.write("composer", "attachment", f"a-{uuid}", "attached", attached)
        if is_online:
            self.write("composer", "attachment", f"a-{uuid}", "online", DeviceOnline())

    def uuids(self, name: str) -> tuple[str, ...]:
        described = self.state.cluster.nodes.description(name)
        return tuple(described.present.values()) if described is not None else ()

    def pool(self, free: int, model: str = "A100") -> None:
        found = FabricSurveyed(pool=(PoolModel(model=model, free=free),))
        self.write("composer", "fabric", "rack", "surveyed", found)

    # --- jobs ---

    def queued(self, name: str, **spec: object) -> str:
        one = job_of(name, **spec)
        self.write("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER))
        self.write("scheduler", "job", one.id, "queued", JobQueued(queue="lab", attempt=1))
        return one.id

    def waits(self, name: str, *, reason: str = "gpu", **spec: object) -> str:
        """A job has no place."""
        job_id = self.queued(name, **spec)
        self.write("scheduler", "job", job_id, "unschedulable", JobUnschedulable(reason=reason))
        return job_id

    def runs(self, name: str, node: str, *devices: int, **spec: object) -> str:
        """A job of one replica holds these devices of a node."""
        job_id = self.queued(name, **{"gpus": len(devices), **spec})
        slot = Slot(group=0, replica=0, node=node, devices=devices, gpu_milli=1000 if devices else 0)
        self.write("scheduler", "job", job_id, "placed", JobPlaced(attempt=1, slots=(slot,)))
        return job_id

    def ends(self, job_id: str) -> None:
        self.write("scheduler", "job", job_id, "succeeded", JobFinished())

    # --- choices ---

    def chosen(self, choice_id: str, name: str, payload: Payload) -> None:
        self.write("scaler", "scale", choice_id, name, payload)

    def ended(self, choice_id: str, *, failed: bool = False) -> None:
        self.write("scaler", "scale", choice_id, "ended", ScaleEnded(failed=failed))
