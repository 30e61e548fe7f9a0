"""Facts of nodes and of their devices."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text, Wire
from muster.schemas.record import StateRecord

GPUS_PER_NODE_MAX = 64
MEMORY_DEVICES_MAX = 64


class CordonRequested(Payload):
    """`cordon-requested`, `drain-requested`, `resume-requested` of a node, by a person, and what federation forwards.

    cordon: nothing new is placed there. drain: besides, jobs that allow it are checkpointed and moved; the others
    finish. Neither kills. resume: the person wants it used again; what services withhold it for stands.
    """

    principal: str
    reason: Text = ""
    cluster: str = ""


class Cordon(Wire):
    """A cordon that stands. draining: jobs that allow it are moved. fact: that asked for it."""

    principal: str
    reason: Text = ""
    draining: bool = False
    since: InstantNs = 0
    fact: str = ""


class NodeJoined(Payload):
    """`joined`: a node is part of the cluster, or its description changed.

    gpu_uuids: one per device, by index. domains: topology, widest first, as (level, domain).
    device_domains: the same inside the node, widest first, as (level, domain number of each device by index):
    (("socket", (0, 0, 0, 0, 1, 1, 1, 1)), ("pair", (0, 0, 1, 1, 2, 2, 3, 3))).
    absent: indexes of places without a device, which a composable node has after one was taken away: the devices
    behind it keep their index. What `gpu_uuids` says there means nothing; ask `present`.
    group: the node group that it belongs to. machine: what its composable fabric calls it, "" without one.
    scale: the scaler's choice by which it was added. memory_uuids: memory devices that its fabric attached and that it
    shows; `memory_mib` counts them. kubelet_picks: a placement says how many of its GPUs (`Slot.gpus`), and the kubelet
    which; `gpu_uuids` are then names of places, unless the node tells real ones. share_milli: the sizes, ascending,
    in which a part of a GPU can be had; None: any. parts_only: no GPU can be had whole. socket_cpu_milli: of
    `cpu_milli`, what each socket gives to jobs, without what is reserved for the system; () if that is not known.
    versions: of its components, as (component, version), where they are known. labels: by which campaigns select it.
    address: at which its exporter is reached, "" if that is not known.
    """

    cpu_milli: int
    memory_mib: int
    gpu_model: str = ""
    gpu_uuids: Annotated[tuple[Label, ...], Field(max_length=GPUS_PER_NODE_MAX)] = ()
    domains: tuple[tuple[str, str], ...] = ()
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    absent: Annotated[tuple[int, ...], Field(max_length=GPUS_PER_NODE_MAX)] = ()
    group: str = ""
    machine: str = ""
    scale: str = ""
    memory_uuids: Annotated[tuple[Label, ...], Field(max_length=MEMORY_DEVICES_MAX)] = ()
    kubelet_picks: bool = False
    share_milli: tuple[int, ...] | None = None
    parts_only: bool = False
    socket_cpu_milli: tuple[int, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    address: str = ""

    @property
    def present(self) -> dict[int, str]:
        """The uuid of each device that is there, by index."""
        if not self.absent:
            return dict(enumerate(self.gpu_uuids))
        return {index: uuid for index, uuid in enumerate(self.gpu_uuids) if index not in self.absent}


class NodeLost(Payload):
    """`lost`: the node does not answer; its pods are gone."""

    reason: Text = ""


class NodeReturned(Payload):
    """`returned`: a lost node answers again."""


class NodeLeft(Payload):
    """`left`: the node is no longer part of the cluster."""

    reason: Text = ""


class RunningJobs(StrEnum):
    """What becomes of jobs that hold a node or device which is to be withheld.

    finish: they end by themselves. move: those that checkpoint are stopped after a checkpoint and queued again, the
    others finish. requeue: all are stopped at once and queued again; no retry of theirs is used.
    """

    FINISH = "finish"
    MOVE = "move"
    REQUEUE = "requeue"


class WithholdRequested(Payload):
    """`withhold-requested`: a service asks that nothing new be placed on a node or device.

    The writer acts only after the scheduler's `withheld` for this request. force: do not wait for holds to end.
    running: what becomes of those who hold it. from_at: it has to be free from then on: until then only what ends
    before may start there; 0: from now on. The same request said again changes running and from_at, as long as it is
    not answered.
    """

    request_id: Label
    reason: Text = ""
    force: bool = False
    running: RunningJobs = RunningJobs.FINISH
    from_at: InstantNs = 0


class WithholdWithdrawn(Payload):
    """`withhold-withdrawn`: a service no longer asks for it; what it asked for may be used again.

    after_withheld: it had folded the answer, and gives back what it was given. Without, a request that was answered
    in the meantime stands, and the writer acts on it or withdraws again.
    """

    request_id: Label
    reason: Text = ""
    after_withheld: bool = False


class Withheld(Payload):
    """`withheld`: nothing is held there any more (or force was asked, and `holders` says what still was)."""

    request_id: Label
    forced: bool = False
    holders: tuple[str, ...] = ()


class Released(Payload):
    """`released`: the node or device may be used. Only the scheduler says so."""

    request_id: str = ""


@dataclass(slots=True)
class NodeState(StateRecord):
    """`state-recorded` of a node, by the agent: what is there and whether it answers."""

    description: NodeJoined
    lost: bool = False
    changed_at: InstantNs = 0
    """When it joined, was lost or returned last."""
    losses: int = 0
    """How often it was lost."""
    last_fact: str = ""
    """Id of the fact that changed it last."""
    lost_reason: str = ""
    """As `lost` said; empty while it answers."""
    detached: tuple[tuple[Label, int], ...] = ()
    """UUID and MiB of devices that the description shows and that were detached since."""
    leaving: str = ""
    """The scaler's choice by which it is being removed."""
    leaving_at: InstantNs = 0
    """Since when it is being removed."""
    trace: str = ""
    """Trace of the fact that changed it last; empty once the change was reported."""
    closed: Text = ""
    """Why the agent asked to withhold it; empty if it did not."""
    is_withheld: bool = False
    """Whether that request was answered."""


class GroupState(Payload):
    """`state-recorded` of a node group, by the agent. removed: nodes of the first day that were taken away since.

    failed: choices of the scaler that could not be carried out here and are not ended.
    """

    removed: tuple[Label, ...] = ()
    failed: tuple[Label, ...] = ()


class WithholdWish(Wire):
    """One request to withhold, as the scheduler keeps it. fact: which fact asked. answered: `withheld` was said.

    by: the service that asked, "" if that is not known. running, from_at, reason: as asked; from_at is 0 if that moment
    had come when it was asked. asked_at: when it was asked so.
    """

    request_id: Label
    fact: str = ""
    force: bool = False
    answered: bool = False
    by: str = ""
    running: RunningJobs = RunningJobs.FINISH
    from_at: InstantNs = 0
    reason: Text = ""
    asked_at: InstantNs = 0


class GrantState(Payload):
    """`state-recorded` of a node or device, by the scheduler: whether it may be used, and who asked otherwise.

    withheld: every request was answered. last_fact: the newest fact that moved the grant. cordon: of a node, by a
    person.
    """

    released: bool
    withhold_requests: tuple[str, ...] = ()
    withheld: bool = False
    wishes: tuple[WithholdWish, ...] = ()
    last_fact: str = ""
    cordon: Cordon | None = None
