"""The GPUs of a simulated cluster: their holders come from its log, their faults are injected by requests.

Implements the folding of `Core`, without decisions.
"""

from dataclasses import dataclass, field

from muster.core import Fact, Instant
from muster.core.instant import NS_PER_S
from muster.schemas import labels
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.operations import ActionOutcome, NodeAction, NodeActionEnded, NodeActionRequested
from muster.telemetry.core.holdings import Holdings
from muster.telemetry.simulator.gpus import NO_LOAD, OF_NODES, FaultKind, Faults, Load, SimulatedGpu
from muster.telemetry.simulator.pages import Labels, labels_of, page

WHOLE_GPU_MILLI = 1000
ACTIONS_KEPT = 10_000


class UnknownDeviceError(Exception):
    """The node, or the GPU on it, does not exist."""


@dataclass(slots=True)
class SimulatedNode:
    """One node. gpus: by uuid. frozen: the page that a stale exporter goes on showing."""

    gpus: dict[str, SimulatedGpu] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    frozen: str = ""


@dataclass(slots=True)
class World:
    """A cluster. collect_s: the exporters' own interval: between two of their readings nothing changes on a page."""

    seed: int
    collect_s: float
    holdings: Holdings = field(default_factory=Holdings)
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    _actions: dict[str, NodeActionRequested] = field(default_factory=dict)

    def apply(self, fact: Fact) -> None:
        """Fold one fact of the cluster's log."""
        self.holdings.apply(fact)
        match fact.payload:
            case NodeActionRequested() as asked:
                self._actions[asked.request_id] = asked
                while len(self._actions) > ACTIONS_KEPT:
                    del self._actions[next(iter(self._actions))]
            case NodeActionEnded(outcome=ActionOutcome.DONE) as ended:
                done = self._actions.pop(ended.request_id, None)
                if done is not None:
                    self._heal(fact.subject_id, done.action, done.device)

    def inject(self, node: str, gpu: int | None, kind: FaultKind, value: float, at: Instant) -> None:
        """Raises UnknownDeviceError; ValueError if the fault is of GPUs and none is named, or the other way round."""
        known = self._node(node)
        if (gpu is None) != (kind in OF_NODES):
            whom = "the node: leave out `gpu`" if kind in OF_NODES else "one GPU: name its place in `gpu`"
            raise ValueError(f"fault: {kind} is of {whom}")
        if gpu is None:
            known.frozen = self.page(node, at) if kind is FaultKind.STALE else ""
            known.faults.inject(kind, value, at)
        else:
            self._gpu(node, gpu).faults.inject(kind, value, at)

    def clear(self, node: str, gpu: int | None) -> None:
        """Clear the faults of the node and all of its GPUs, or of one GPU. Raises UnknownDeviceError."""
        if gpu is not None:
            self._gpu(node, gpu).faults.clear()
            return
        known = self._node(node)
        known.faults.clear()
        for device in known.gpus.values():
            device.faults.clear()

    def faults_of(self, node: str) -> Faults:
        """Return the faults of the node's exporter. Raises UnknownDeviceError."""
        return self._node(node).faults

    def page(self, node: str, at: Instant) -> str:
        """Return the node's page. Raises UnknownDeviceError."""
        known = self._node(node)
        if FaultKind.STALE in known.faults.values:
            return known.frozen
        holders = self.holdings.holders(node)
        number = int(at / NS_PER_S / self.collect_s)
        read_at = Instant(round(number * self.collect_s * NS_PER_S))
        shown = []
        for gpu in known.gpus.values():
            if FaultKind.OFF_BUS in gpu.faults.values:
                continue
            held = holders.get(gpu.uuid, {})
            gpu.load = self._load(held)
            shown.append((gpu, gpu.read(number, read_at), self._labels(node, gpu, held)))
        return page(shown, at)

    def _load(self, held: dict[str, int]) -> Load:
        """Return the load of a GPU, from the labels of the first of its jobs that has one."""
        if not held:
            return NO_LOAD
        share = min(1.0, sum(held.values()) / WHOLE_GPU_MILLI)
        for job_id in held:
            told = self.holdings.jobs[job_id].job.spec.labels
            if labels.GPU_BUSY in told or labels.GPU_SM in told:
                return Load(share, busy=_part(told.get(labels.GPU_BUSY)), sm=_part(told.get(labels.GPU_SM)))
        return Load(share)

    def _labels(self, node: str, gpu: SimulatedGpu, held: dict[str, int]) -> Labels:
        """Return the labels with the holder, the first of several, as PodResources and the job-mapping directory do."""
        for job_id in held:
            job = self.holdings.jobs[job_id]
            pod = f"mj-{job_id.lower()}-1-0-0"
            return labels_of(gpu, node, pod=pod, namespace=job.job.spec.team, job=job_id if len(held) == 1 else "")
        return labels_of(gpu, node)

    def _heal(self, node: str, action: NodeAction, device: str) -> None:
        known = self.nodes.get(node)
        if known is None:
            return
        if action is not NodeAction.RESET:
            known.faults.heal(action)
        for gpu in known.gpus.values():
            if action is not NodeAction.RESET or device in ("", gpu.uuid):
                gpu.faults.heal(action)

    def _node(self, node: str) -> SimulatedNode:
        """Return the node with the GPUs of the log; known GPUs keep their state."""
        description = self.holdings.nodes.description(node)
        if description is None:
            self.nodes.pop(node, None)
            raise UnknownDeviceError(f"there is no node {node!r}")
        known = self.nodes.setdefault(node, SimulatedNode())
        present = description.present
        if tuple(known.gpus) != tuple(present.values()):
            known.gpus = {
                uuid: known.gpus.get(uuid) or self._new(description, uuid, index) for index, uuid in present.items()
            }
        return known

    def _new(self, description: NodeJoined, uuid: str, index: int) -> SimulatedGpu:
        return SimulatedGpu(uuid, index, description.gpu_model, self.seed)

    def _gpu(self, node: str, index: int) -> SimulatedGpu:
        for gpu in self._node(node).gpus.values():
            if gpu.index == index:
                return gpu
        raise UnknownDeviceError(f"node {node} has no GPU {index}")


def _part(told: str | None) -> float | None:
    """Return the share in a label; None if it is not a valid share."""
    try:
        return None if told is None else min(1.0, max(0.0, float(told)))
    except ValueError:
        return None
