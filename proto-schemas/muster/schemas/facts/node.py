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
    """`cordon-requested`, `drain-requested`, `resume-requested` of a node, by an operator, and as forwarded.

    cordon: no new jobs are placed there. drain: in addition, jobs that allow it are checkpointed and moved; other
    jobs finish. Neither kills a job. resume: removes both; a drain by a service remains.
    """

    principal: str
    reason: Text = ""
    cluster: str = ""


class Cordon(Wire):
    """A cordon in effect. draining: jobs that allow it are moved. fact: id of the fact that requested it."""

    principal: str
    reason: Text = ""
    draining: bool = False
    since: InstantNs = 0
    fact: str = ""


class NodeJoined(Payload):
    """`joined`: a node is part of the cluster, or its description changed.

    gpu_uuids: one per device, by index. domains: topology, widest first, as (level, domain). device_domains: the
    same within the node, widest first, as (level, domain number of each device by index): (("socket", (0, 0, 0, 0,
    1, 1, 1, 1)), ("pair", (0, 0, 1, 1, 2, 2, 3, 3))). absent: indexes without a device, which a composable node has
    after a device was detached: the devices after it keep their index. `gpu_uuids` is meaningless there; use
    `present`. group: the node group of the node. machine: its name in its composable fabric, "" without one. scale:
    the scaler's decision by which it was added. memory_uuids: memory devices that its fabric attached and that it
    shows; `memory_mib` counts them. kubelet_picks: a placement gives the number of GPUs (`Slot.gpus`), and the
    kubelet picks them; `gpu_uuids` are then names of places, unless the node reports real ones. share_milli: the
    allocatable fractions of a GPU, ascending; None: any. parts_only: no whole GPU can be allocated.
    socket_cpu_milli: of `cpu_milli`, the share of each socket, without the reservation for the system; () if
    unknown. versions: of its components, as (component, version), as far as known. labels: by which campaigns
    select it. address: of its exporter, "" if unknown.
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
        """Return the uuid of each present device, by index."""
        if not self.absent:
            return dict(enumerate(self.gpu_uuids))
        return {index: uuid for index, uuid in enumerate(self.gpu_uuids) if index not in self.absent}


class NodeLost(Payload):
    """`lost`: the node does not answer; its pods are gone."""

    reason: Text = ""


class NodeReturned(Payload):
    """`returned`: a lost node rejoined."""


class NodeLeft(Payload):
    """`left`: the node is no longer part of the cluster."""

    reason: Text = ""


class RunningJobs(StrEnum):
    """Treatment of jobs on a node or device that is to be drained.

    finish: they end by themselves. move: jobs that checkpoint are stopped after a checkpoint and queued again;
    other jobs finish. requeue: all are stopped at once and queued again, without using a retry.
    """

    FINISH = "finish"
    MOVE = "move"
    REQUEUE = "requeue"


class WithholdRequested(Payload):
    """`withhold-requested`: a service requests the drain of a node or device: no new jobs are placed there.

    The writer acts only after the scheduler's `withheld` for this request. force: do not wait for running jobs.
    running: treatment of running jobs. from_at: the time from which it must be free; until then, only jobs that end
    before may start there; 0: from now on. Emitted again, the same request changes running and from_at, as long as
    it is not answered.
    """

    request_id: Label
    reason: Text = ""
    force: bool = False
    running: RunningJobs = RunningJobs.FINISH
    from_at: InstantNs = 0


class WithholdWithdrawn(Payload):
    """`withhold-withdrawn`: a service withdraws its request; the node or device may become schedulable again.

    after_withheld: the writer had folded the answer and hands the node or device back. Otherwise, a request that
    was answered in the meantime remains, and the writer acts on it or withdraws it again.
    """

    request_id: Label
    reason: Text = ""
    after_withheld: bool = False


class Withheld(Payload):
    """`withheld`: the node or device is drained. forced: although `holders`, the jobs that used it, had not ended."""

    request_id: Label
    forced: bool = False
    holders: tuple[str, ...] = ()


class Released(Payload):
    """`released`: the node or device is schedulable. Only the scheduler emits it."""

    request_id: str = ""


@dataclass(slots=True)
class NodeState(StateRecord):
    """`state-recorded` of a node, by the agent: its description, and whether it answers."""

    description: NodeJoined
    lost: bool = False
    changed_at: InstantNs = 0
    """When it last joined, was lost or rejoined."""
    losses: int = 0
    """Number of times it was lost."""
    last_fact: str = ""
    """Id of the fact that last changed it."""
    lost_reason: str = ""
    """Reason of `lost`; empty while it answers."""
    detached: tuple[tuple[Label, int], ...] = ()
    """UUID and MiB of described devices that were detached since."""
    leaving: str = ""
    """The scaler's decision by which it is being removed."""
    leaving_at: InstantNs = 0
    """Since when it is being removed."""
    trace: str = ""
    """Trace of the fact that last changed it; empty once the change was reported."""
    closed: Text = ""
    """Why the agent requested its drain; empty if it did not."""
    is_withheld: bool = False
    """Whether that request was answered."""


class GroupState(Payload):
    """`state-recorded` of a node group, by the agent. removed: initial nodes that were removed since.

    failed: decisions of the scaler that failed here and are not ended.
    """

    removed: tuple[Label, ...] = ()
    failed: tuple[Label, ...] = ()


class DrainRequest(Wire):
    """One drain request, as the scheduler keeps it. fact: id of its fact. answered: `withheld` was emitted.

    by: the requesting service, "" if unknown. running, from_at, reason: as requested; from_at is 0 if that time had
    passed at the request. asked_at: time of this version of the request.
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
    """`state-recorded` of a node or device, by the scheduler: whether it is schedulable, and the requests against it.

    withheld: every request was answered. last_fact: the newest fact that changed the grant. cordon: of a node, by
    an operator.
    """

    released: bool
    withhold_requests: tuple[str, ...] = ()
    withheld: bool = False
    wishes: tuple[DrainRequest, ...] = ()
    last_fact: str = ""
    cordon: Cordon | None = None
