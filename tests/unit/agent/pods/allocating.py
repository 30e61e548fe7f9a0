"""One agent's needs of pods over a store of claims, stepped by hand."""

from dataclasses import dataclass, field

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.calls import Call, Outcome
from muster.agent.core.kubernetes.claims import project_claim
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.needs import PodNeeds
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.ports import AdoptedPods
from muster.agent.core.kubernetes.slices import Device, DeviceIndex, Place, SliceView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant, after
from muster.schemas.job import Slot, TaskGroup
from unit.agent.pods.claim_store import ClaimStore, Follower
from unit.agent.pods.orders import JOB, POLICY, spec

NOW = Instant(1)
DRIVER = "gpu.nvidia.com"
NODE = "node-1"
UUIDS = tuple(f"GPU-{number}" for number in range(4))


def place(number: int) -> Place:
    """Of a device of the node."""
    return Place(DRIVER, NODE, f"gpu-{number}")


def order(*devices: int, job: str = JOB, attempt: int = 0, replicas: int = 1, kind: str = "batch") -> CreatePods:
    """An attempt whose pods have these devices each."""
    slots = tuple(Slot(group=0, replica=at, node=NODE, devices=devices, gpu_milli=1000) for at in range(replicas))
    group = TaskGroup(replicas=replicas, gpus=max(1, len(devices)))
    return CreatePods(job, attempt, NOW, slots, spec(group, kind=kind))


class _Names:
    def uuids(self, node: str, devices: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(UUIDS[device] for device in devices if device < len(UUIDS)) if node == NODE else ()


@dataclass
class _Own(AdoptedPods):
    """adopted: jobs whose objects make their pods."""

    adopted: set[str] = field(default_factory=set)

    def makes_own_pods(self, order: CreatePods) -> bool:
        return order.job_id in self.adopted


@dataclass
class Allocator:
    """An agent of which only the needs of its pods live. ready, refused: as told."""

    store: ClaimStore
    own: _Own = field(default_factory=_Own)
    ready: list[PodKey] = field(default_factory=list)
    refused: dict[PodKey, str] = field(default_factory=dict)
    now: Instant = NOW

    def __post_init__(self) -> None:
        devices = tuple(Device(place(at), uuid, "H100", "gpu", 0, "a") for at, uuid in enumerate(UUIDS))
        index = DeviceIndex(DRIVER)
        index.put(SliceView("one", DRIVER, NODE, 1, 1, NODE, devices))
        self.work = Worklist()
        self.needs = PodNeeds(self.work, PodOrders(POLICY), self.own, index, _Names())
        self.needs.watched_by(self)
        self.follower = Follower(self.store)

    def is_ready(self, key: PodKey, *, uid: str) -> None:
        """Told by the needs."""
        self.ready.append(key)

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """Told by the needs."""
        self.refused[key] = reason

    def prepare(self, wanted: CreatePods, slot: int = 0, *, uid: str = "pod-uid") -> bool:
        """Its pod is there."""
        one = wanted.slots[slot]
        name = f"mj-{wanted.job_id.lower()}-{wanted.attempt}-{one.group}-{one.replica}"
        self.store.pod(POLICY.namespace, name, uid)
        return self.needs.prepare(wanted, one, name=name, uid=uid, now=self.now)

    def release(self, wanted: CreatePods, slot: int = 0) -> None:
        """Its pod ended."""
        self.needs.release(wanted, wanted.slots[slot], self.now)

    def work_once(self) -> Call | None:
        """Make one call that is asked for."""
        task = self.work.take(self.now)
        if task is None:
            return None
        self.work.finished(task, self.store.make(task.call), self.now)
        return task.call

    def answer_once(self, outcome: Outcome) -> Call | None:
        """The server answers so, whatever is asked."""
        task = self.work.take(self.now)
        if task is None:
            return None
        self.work.finished(task, outcome, self.now)
        return task.call

    def watch_once(self) -> bool:
        """See one event."""
        event = self.follower.next()
        if event is None:
            return False
        key, raw = event
        if raw is None:
            self.needs.claim_gone(key, self.now)
        else:
            self.needs.claim_seen(project_claim(raw), self.now)
        return True

    def settle(self) -> None:
        """Until nothing is left to do or to see, for a minute."""
        for _ in range(120):
            while self.work_once() is not None or self.watch_once():
                pass
            self.now = after(self.now, 0.5)
