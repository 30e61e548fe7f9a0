"""A fold of holds, and the facts of one cluster by hand."""

from kit.log import a_fact
from muster.cluster import HoldChange, Holds
from muster.core import NS_PER_S
from muster.schemas.base import Payload
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobResized,
    JobResizeRequested,
    PodsExited,
    PodsOutcome,
    PodsStarted,
)
from muster.schemas.job import Slot

JOB, OTHER = "A" * 26, "B" * 26
NODE = {"gpu-a": 0, "gpu-b": 1, "gpu-c": 2, "gpu-d": 3}
"""A node of four devices: the index of each, by UUID."""


class Told:
    """Holds that fold what is told, a second after the other."""

    def __init__(self) -> None:
        self.holds = Holds()
        self.seq = 0

    def tell(self, name: str, payload: Payload, *, job: str = JOB, kind: str = "job") -> HoldChange | None:
        self.seq += 1
        time = self.seq * NS_PER_S
        return self.holds.apply(a_fact("scheduler", kind, job, name, payload, seq=self.seq, time=time))

    def placed(self, *slots: Slot, job: str = JOB, attempt: int = 1) -> HoldChange | None:
        return self.tell("placed", JobPlaced(attempt=attempt, slots=slots), job=job)

    def started(self, *uuids: tuple[str, ...], job: str = JOB, attempt: int = 1) -> None:
        self.tell("pods-started", PodsStarted(attempt=attempt, device_uuids=uuids), job=job)

    def exited(self, *, job: str = JOB, attempt: int = 1) -> None:
        self.tell("pods-exited", PodsExited(attempt=attempt, outcome=PodsOutcome.STOPPED), job=job)

    def resizing(self, *slots: Slot, job: str = JOB) -> HoldChange | None:
        return self.tell("resize-requested", JobResizeRequested(attempt=1, slots=slots), job=job)

    def resized(self, *slots: Slot, job: str = JOB) -> HoldChange | None:
        return self.tell("resized", JobResized(attempt=1, slots=slots), job=job)

    def queued(self, *, job: str = JOB, attempt: int = 2) -> HoldChange | None:
        return self.tell("queued", JobQueued(queue="lab", attempt=attempt), job=job)

    def ended(self, name: str, *, job: str = JOB) -> HoldChange | None:
        return self.tell(name, JobFinished(attempt=1), job=job)

    def holders(self, uuid: str, node: str = "n1") -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Known and possible holders of a device of a node that shows `NODE`."""
        found = self.holds.device_holders(node, uuid, NODE)
        if uuid in NODE:
            assert (uuid in self.holds.devices_held(node, NODE)) == bool(found.all)
        return found.known, found.possible


def chosen(node: str, *devices: int, replica: int = 0, milli: int = 1000) -> Slot:
    """A slot whose devices the scheduler chose."""
    return Slot(group=0, replica=replica, node=node, devices=devices, gpu_milli=milli)


def counted(node: str, gpus: int = 1, *, replica: int = 0, milli: int = 1000, places: tuple[int, ...] = ()) -> Slot:
    """A slot whose devices the kubelet picks."""
    return Slot(group=0, replica=replica, node=node, gpus=gpus, gpu_milli=milli, places=places)
