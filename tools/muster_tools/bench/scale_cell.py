"""A simulated cluster for the scale benchmark: all services but the scaler, whose core folds their facts."""

from collections import deque
from collections.abc import Sequence

from muster.core import NS_PER_S, Draft, Fact, Instant
from muster.core.virtual import VirtualCluster
from muster.fabric.layout import machine_id
from muster.placement import Hold
from muster.scaler.core import ScalerCore
from muster.schemas.base import Payload
from muster.schemas.devices import Origin
from muster.schemas.facts.device import (
    AttachmentRequested,
    DetachWanted,
    DeviceAttached,
    DeviceDetached,
    DeviceOnline,
    DeviceVisible,
)
from muster.schemas.facts.fabric import FabricSurveyed
from muster.schemas.facts.job import JobFinished, JobPlaced, JobQueued, JobRouted, JobUnschedulable
from muster.schemas.facts.node import NodeJoined, NodeLeft, Released
from muster.schemas.facts.queue import QueueChanged, QueueSpec
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job, Slot
from muster_tools.bench.scale_input import FABRICS, QUEUE, Scale, config, holders, nodes, pool

CLUSTER = "bench"
CAME = "GPU-a"
"""Prefix of the uuids of devices that were attached for a job."""
START = Instant(1_700_000_000 * NS_PER_S)


class Cell(VirtualCluster):
    """The cluster around the scaler's core. `say` folds a fact at once; facts that are only written are timed later."""

    def __init__(self, scale: Scale) -> None:
        super().__init__(CLUSTER, start=START, keeps_log=False)
        self.core = ScalerCore(config(scale))
        self._scale = scale
        self.described: dict[str, NodeJoined] = {}
        self.running: deque[Job] = deque()
        self._attachments = 0
        self.say("scheduler", "queue", QUEUE, "changed", QueueChanged(spec=QueueSpec(name=QUEUE)))
        for fabric in FABRICS:
            self.say("composer", "fabric", fabric.name, "surveyed", FabricSurveyed(pool=(pool(scale, fabric),)))
            for name, description, gpus in nodes(scale, fabric):
                self.join(name, description)
                for uuid in description.gpu_uuids:
                    self._attach(name, fabric.name, fabric.model, uuid=uuid, origin=Origin.FOUND)
                for job, devices in holders(name, gpus):
                    self.come(job, reason="")
                    slot = Slot(group=0, replica=0, node=name, devices=devices, gpu_milli=1000)
                    self.place(job, (slot,))

    def say(self, writer: str, kind: str, subject_id: str, name: str, payload: Payload, *, trace: str = "") -> Fact:
        """Append a fact to the log and fold it."""
        fact = self.write(writer, kind, subject_id, name, payload, trace=trace)
        self.core.apply(fact)
        return fact

    # --- jobs ------------------------------------------------------------------------------------------------

    def come(self, job: Job, *, reason: str) -> Fact:
        """Queue the job. Returns the fact that it is unschedulable, which is not folded yet."""
        self.say("federation", "job", job.id, "routed", JobRouted(job=job, cluster=CLUSTER), trace=job.trace)
        self.say("scheduler", "job", job.id, "queued", JobQueued(queue=QUEUE, attempt=1), trace=job.trace)
        payload = JobUnschedulable(reason=reason, detail=f"{reason}: not enough")
        return self.write("scheduler", "job", job.id, "unschedulable", payload, trace=job.trace)

    def place(self, job: Job, slots: Sequence[Slot]) -> None:
        """Run the job on these slots."""
        self.say("scheduler", "job", job.id, "placed", JobPlaced(attempt=1, slots=tuple(slots)), trace=job.trace)

    def end(self, job: Job) -> None:
        """End the job."""
        self.say("scheduler", "job", job.id, "succeeded", JobFinished(attempt=1), trace=job.trace)

    # --- nodes and devices -----------------------------------------------------------------------------------

    def join(self, name: str, description: NodeJoined) -> None:
        """Let a node join and release it."""
        self.described[name] = description
        self.say("agent", "node", name, "joined", description)
        self.say("scheduler", "node", name, "released", Released())

    def leave(self, name: str) -> None:
        """Remove a node."""
        del self.described[name]
        self.say("agent", "node", name, "left", NodeLeft())

    def _attach(self, node: str, fabric: str, model: str, *, uuid: str, origin: Origin, request: str = "") -> str:
        self._attachments += 1
        name = f"a{self._attachments}"
        requested = AttachmentRequested(
            request=request, model=model, node=node, fabric=fabric, machine=self.described[node].machine, origin=origin
        )
        self.say("composer", "attachment", name, "requested", requested)
        uuid = uuid or f"{CAME}{name}"
        attached = DeviceAttached(device_uuid=uuid, device_id=f"d-{name}", node=node, model=model)
        self.say("composer", "attachment", name, "attached", attached)
        if uuid not in self.described[node].gpu_uuids:
            known = self.described[node]
            shown = known.model_copy(update={"gpu_uuids": (*known.gpu_uuids, uuid), "gpu_model": model})
            self.described[node] = shown
            self.say("agent", "node", node, "joined", shown)
            self.say("scheduler", "device", uuid, "released", Released())
        self.say("composer", "attachment", name, "visible", DeviceVisible())
        self.say("composer", "attachment", name, "online", DeviceOnline())
        return uuid

    # --- what was chosen -------------------------------------------------------------------------------------

    def decided(self, draft: Draft) -> Fact:
        """Append the scaler's draft to the log and fold it."""
        fact = self.append("scaler", draft)
        self.core.apply(fact)
        return fact

    def carry_out(self, facts: Sequence[Fact]) -> None:
        """Carry out the choices as composer and agent do, and place the job; devices return when it ends."""
        for fact in facts:
            chosen = fact.payload
            if not isinstance(chosen, ScaleChosen):
                continue
            if fact.name == "node-add-chosen":
                self._add(chosen)
            elif fact.name == "gpu-attach-chosen":
                for part in chosen.parts:
                    for _ in range(part.count):
                        self._attach(
                            part.node, part.fabric, part.device_model, uuid="", origin=Origin.SCALER,
                            request=fact.subject_id,
                        )  # fmt: skip

    def _add(self, chosen: ScaleChosen) -> None:
        group = self.core.state.config.groups[chosen.group]
        description = NodeJoined(
            cpu_milli=group.cpu_milli,
            memory_mib=group.memory_mib,
            group=group.name,
            machine=machine_id(chosen.node) if group.composable else "",
        )
        self.join(chosen.node, description)

    def finish(self) -> None:
        """Record the scaler's outcomes; not timed."""
        for _ in range(4):
            drafts = self.core.decide(self.now)
            if not drafts:
                return
            self.carry_out([self.decided(draft) for draft in drafts])

    def start(self, job: Job) -> bool:
        """Place the job as the scheduler does, if it fits now."""
        record = self.core.state.jobs.records[job.id]
        for node in self.described:
            self.core.state.cluster.coming.lift(node)
        holds = self.core.state.cluster.fleet.find(record.shape.gang)
        if holds is None:
            return False
        self.place(job, [_slot(hold) for hold in holds])
        self.running.append(job)
        return True

    def retire(self) -> None:
        """End the oldest served job, and return its devices."""
        job = self.running.popleft()
        self.end(job)

    def pool_share(self) -> float:
        """Return the free share of the pool with the lowest one among the fabrics."""
        stocks = self.core.state.pool
        return min(stocks.free(one.name, one.model) / max(1, pool(self._scale, one).free) for one in FABRICS)

    def give_back(self) -> None:
        """Return idle devices at the end of nodes, which were attached for a job, to their pools."""
        for name in list(self.described):
            known, idle = self.described[name], self.core.state.cluster.idle.on.get(name, {})
            left = list(known.gpu_uuids)
            while left and left[-1] in idle and left[-1].startswith(CAME):
                self._detach(name, left.pop())
            if len(left) < len(known.gpu_uuids):
                model = known.gpu_model if left else ""
                shown = known.model_copy(update={"gpu_uuids": tuple(left), "gpu_model": model})
                self.described[name] = shown
                self.say("agent", "node", name, "joined", shown)

    def _detach(self, node: str, uuid: str) -> None:
        attachment = self.core.state.attachments.of_device[uuid].id
        self.say("composer", "attachment", attachment, "detach-wanted", DetachWanted(request_id=attachment))
        self.say("composer", "attachment", attachment, "detached", DeviceDetached(device_uuid=uuid, node=node))


def _slot(hold: Hold) -> Slot:
    slot = hold.slot
    return Slot(group=slot.group, replica=slot.replica, node=slot.node, devices=slot.devices, gpu_milli=slot.gpu_milli)
