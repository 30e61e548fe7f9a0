"""The scenario format. Field names are stable; docs/concepts/simulating.md lists them with their defaults.

Units are people's: GPUs, cores, GiB, seconds. Only a node's name and GPUs, a queue's name, and a job's name, queue and
GPUs are needed.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StringConstraints

from muster.schemas.base import Label, Name, Text
from muster.schemas.facts.node import GPUS_PER_NODE_MAX
from muster.schemas.facts.queue import (
    TEAMS_MAX,
    Defragment,
    FairShareRule,
    OverSlice,
    QueueOrder,
    Reclaim,
    SubmittingTeam,
    WithinQueue,
)
from muster.schemas.facts.reservation import Repeat
from muster.schemas.job import GRACE_S_MAX, GROUPS_MAX, PRIORITY_MAX, REPLICAS_MAX, RUN_TIME_S_MAX, JobKind
from muster.simulator.document import checked, read

NODES_MAX = 200_000
JOBS_MAX = 200_000
QUEUES_MAX = 20_000
RESERVATIONS_MAX = 1_000

NODE_CPU = 128.0
NODE_MEMORY_GIB = 1024.0
NODE_MODEL = "H100"

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Whole = Annotated[int, Strict()]
Switch = Annotated[bool, Strict()]
Ago = Annotated[Number, Field(ge=0, le=RUN_TIME_S_MAX)]
RunTime = Annotated[Number, Field(gt=0, le=RUN_TIME_S_MAX)]
Slice = Annotated[Number, Field(ge=0, le=RUN_TIME_S_MAX)]
Human = dict[str, Number]
"""Amounts: `gpu`, `gpu:<model>`, `cpu` (cores), `memory_gib`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeState(StrEnum):
    """State of a node in scheduling. Jobs on a lost node have ended; on the others they continue."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    LOST = "lost"


class Node(_Part):
    """`count` equal nodes: called `name` if it is 1, else `name-0`, `name-1`, ...

    labels: the node's place in the topology, each a level and its domain. sockets: the GPUs are split evenly over so
    many; device_domains: the same for any level inside the node, the domain number of each GPU by index.
    bad_gpus: indexes of GPUs that take no jobs.
    """

    name: Label
    gpus: Annotated[Whole, Field(ge=0, le=GPUS_PER_NODE_MAX)]
    count: Annotated[Whole, Field(ge=1, le=NODES_MAX)] = 1
    model: Annotated[str, Field(max_length=63)] = NODE_MODEL
    cpu: Annotated[Number, Field(ge=0, le=10_000)] = NODE_CPU
    memory_gib: Annotated[Number, Field(ge=0, le=100_000)] = NODE_MEMORY_GIB
    labels: dict[str, str] = Field(default_factory=dict)
    sockets: Annotated[Whole, Field(ge=1, le=GPUS_PER_NODE_MAX)] | None = None
    device_domains: dict[str, tuple[Whole, ...]] = Field(default_factory=dict)
    state: NodeState = NodeState.READY
    bad_gpus: tuple[Whole, ...] = ()


class Preemption(_Part):
    """Which jobs the queue's jobs may preempt; missing fields are inherited from the queue above."""

    within_queue: WithinQueue | None = None
    reclaim: Reclaim | None = None
    fair_share: tuple[FairShareRule, ...] | None = None
    over_slice: OverSlice | None = None


class UserTemplate(_Part):
    """Queues per user are made of this."""

    quota: Human = Field(default_factory=dict)
    borrowing_limit: Human = Field(default_factory=dict)
    lending_limit: Human = Field(default_factory=dict)
    weight: Annotated[Number, Field(gt=0)] = 1.0


class Queue(_Part):
    """A queue, as `muster queues set` takes it, in people's units."""

    name: Name
    parent: Name | None = None
    quota: Human = Field(default_factory=dict)
    borrowing_limit: Human = Field(default_factory=dict)
    lending_limit: Human = Field(default_factory=dict)
    weight: Annotated[Number, Field(gt=0)] = 1.0
    order: QueueOrder | None = None
    half_life_s: RunTime | None = None
    starving_after_s: Slice | None = None
    run_time_default_s: RunTime | None = None
    run_time_max_s: RunTime | None = None
    min_slice_default_s: Slice | None = None
    min_slice_max_s: Slice | None = None
    preemption: Preemption = Preemption()
    defragment: Defragment | None = None
    user_template: UserTemplate | None = None
    closed: Switch = False
    teams: Annotated[tuple[SubmittingTeam, ...], Field(max_length=TEAMS_MAX)] = ()
    """Same form as in `muster queues set`. A scenario has no submitters, so they have no effect here."""
    priority_max: Annotated[Whole, Field(ge=0, le=PRIORITY_MAX)] | None = None
    """Maximum priority, as in `muster queues set`."""


def _level(value: object) -> object:
    return {"level": value} if isinstance(value, str) else value


class Topology(_Part):
    """Replicas within one domain of the level; the level's name alone prefers it."""

    level: Name
    required: Switch = False


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


TopologyRequest = Annotated[Topology, BeforeValidator(_level)]
Models = Annotated[tuple[Label, ...], BeforeValidator(_listed)]
Devices = tuple[tuple[Whole, ...], ...]
Gpus = Annotated[Number, Field(ge=0, le=1024)]
Replicas = Annotated[Whole, Field(ge=1, le=REPLICAS_MAX)]


class Group(_Part):
    """One task group of a job of several. gpus: per replica, a fraction below 1 for a share of one."""

    name: Name
    gpus: Gpus
    replicas: Replicas = 1
    min_replicas: Replicas | None = None
    cpu: Annotated[Number, Field(ge=0)] = 0.0
    memory_gib: Annotated[Number, Field(ge=0)] = 0.0
    model: Models = ()
    topology: TopologyRequest | None = None


JobName = Annotated[str, StringConstraints(min_length=1, max_length=63)]


class JobStateWanted(StrEnum):
    """State of a job when the scenario begins."""

    PENDING = "pending"
    RUNNING = "running"
    HELD = "held"


class Job(_Part):
    """`count` equal jobs: called `name` if it is 1, else `name-0`, `name-1`, ...

    nodes: of a running job, the node of each replica that runs; node: of all; without both: any node with room.
    devices: GPUs of each replica, by index; default: the lowest idle ones.

    *_s_ago: before the scenario's beginning. started_s_ago: default: the run is just past its slice. run_s: total run
    time; default: forever. restart_s, checkpoint_interval_s, checkpoint_s_ago: each of them means that the job writes
    checkpoints.
    """

    name: JobName
    queue: Name
    gpus: Gpus | None = None
    replicas: Replicas = 1
    min_replicas: Replicas | None = None
    count: Annotated[Whole, Field(ge=1, le=JOBS_MAX)] = 1
    priority: Annotated[Whole, Field(ge=0, le=PRIORITY_MAX)] = 50
    preemptible: Switch = True
    state: JobStateWanted = JobStateWanted.PENDING
    node: Label | None = None
    nodes: tuple[Label, ...] | None = None
    devices: Devices | None = None
    submitted_s_ago: Ago | None = None
    started_s_ago: Ago | None = None
    checkpoint_s_ago: Ago | None = None
    checkpoint_interval_s: RunTime | None = None
    restart_s: Annotated[Number, Field(ge=0, le=86_400)] | None = None
    run_s: Annotated[Number, Field(ge=0)] | None = None
    exit_code: Annotated[Whole, Field(ge=0, le=255)] = 0
    user: Label = "somebody"
    team: Name | None = None
    kind: JobKind = JobKind.BATCH
    cpu: Annotated[Number, Field(ge=0)] = 0.0
    memory_gib: Annotated[Number, Field(ge=0)] = 0.0
    model: Models = ()
    models: Models = ()
    topology: TopologyRequest | None = None
    full_node: Switch = False
    same_model: Switch = False
    task_groups: Annotated[tuple[Group, ...], Field(max_length=GROUPS_MAX)] = ()
    total_run_time_s: RunTime | None = None
    min_slice_s: Slice | None = None
    grace_s: Annotated[Number, Field(ge=0, le=GRACE_S_MAX)] = 0.0
    retries: Annotated[Whole, Field(ge=0, le=100)] = 0
    labels: dict[str, str] = Field(default_factory=dict)


class Reservation(_Part):
    """Nodes, or so many GPUs, kept for a queue, for a job, or with neither for maintenance.

    starts_in_s: after the scenario's beginning, negative for one that began before.
    """

    name: Name
    nodes: tuple[Label, ...] = ()
    gpus: Annotated[Whole, Field(ge=0)] = 0
    model: str = ""
    queue: Name | None = None
    job: JobName | None = None
    starts_in_s: Annotated[Number, Field(ge=-RUN_TIME_S_MAX, le=RUN_TIME_S_MAX)] = 0.0
    duration_s: RunTime
    repeat: Repeat = Repeat.ONCE
    reason: Text = ""


GROUPS_MAX = 64
GROUP_NODES_MAX = 10_000
CHOICES_MAX = 1_000
DAY_S = 86_400.0

Seconds = Annotated[Number, Field(ge=0, le=30 * DAY_S)]
Watts = Annotated[Number, Field(ge=0)]
NodeGpus = Annotated[Whole, Field(ge=0, le=GPUS_PER_NODE_MAX)]
Count = Annotated[Whole, Field(ge=0, le=GROUP_NODES_MAX)]


class ScaledGroup(_Part):
    """A node group; its nodes are `<name>-0001`, `<name>-0002`, ...

    nodes: there at the beginning. gpus: of each of those; of an ordinary group, of every node. gpus_max: composable
    nodes take so many. model: of its GPUs, best first.
    """

    name: Name
    composable: Annotated[bool, Strict()] = False
    nodes: Count = 0
    nodes_min: Count = 0
    nodes_max: Count | None = None
    gpus: NodeGpus = 0
    gpus_min: NodeGpus = 0
    gpus_max: NodeGpus | None = None
    model: Annotated[tuple[Label, ...], BeforeValidator(_listed)] = ()
    warm_gpus: Annotated[Whole, Field(ge=0)] = 0
    cpu: Annotated[Number, Field(gt=0, le=10_000)] = 128.0
    memory_gib: Annotated[Number, Field(gt=0, le=100_000)] = 1024.0
    idle_w: Watts = 250.0
    busy_w: Watts = 600.0
    provision_s: Seconds = 600.0
    deprovision_s: Seconds = 60.0


class ScalingPart(_Part):
    """pool: free devices of the one fabric, by model. for_s: so much time passes before anything is printed.

    attach_s: the fabric's switch takes so long, visible_s: until the node shows the device. may_not_coexist: models of
    which a node has at most one.
    """

    groups: Annotated[tuple[ScaledGroup, ...], Field(min_length=1, max_length=GROUPS_MAX)]
    pool: dict[Label, Annotated[Whole, Field(ge=0, le=100_000)]] = Field(default_factory=dict)
    for_s: Seconds = 1800.0
    attach_s: Seconds = 10.0
    visible_s: Seconds = 10.0
    gpu_idle_s: Seconds = 600.0
    node_unneeded_s: Seconds = 600.0
    delay_after_add_s: Seconds = 600.0
    may_not_coexist: tuple[tuple[Label, ...], ...] = ()


class ExpectedChoice(_Part):
    """One choice of the scaler; only named fields are compared. choice: attach, add, return or remove.

    case: 1 to 4. job: the job that it serves. outcome: done, failed, or "" while it is under way.
    """

    choice: Annotated[str, Field(pattern="^(attach|add|return|remove|nothing)$")]
    case: Annotated[Whole, Field(ge=1, le=4)] | None = None
    job: str | None = None
    group: str | None = None
    node: str | None = None
    count: Whole | None = None
    outcome: str | None = None


class ExpectedGroup(_Part):
    """Final number of a group's nodes, and of the GPUs on them."""

    nodes: Whole | None = None
    gpus: Whole | None = None


class ExpectedScaling(_Part):
    """choices: all that were made, in their order. groups: in the end. pool: what is free in the end."""

    choices: Annotated[tuple[ExpectedChoice, ...], Field(max_length=CHOICES_MAX)] | None = None
    groups: dict[str, ExpectedGroup] = Field(default_factory=dict)
    pool: dict[str, Whole] = Field(default_factory=dict)


class ExpectedJob(_Part):
    """Expected state of a job; a missing field is not checked. nodes: in any order."""

    state: str | None = None
    nodes: tuple[str, ...] | None = None
    replicas: Whole | None = None
    preempted_for: str | None = None
    reason: str | None = None
    expected_start_s: Number | None = None


class ExpectedQueue(_Part):
    """Expected state of a queue."""

    held: Human | None = None
    share: Number | None = None
    pending: Whole | None = None
    running: Whole | None = None


class Expected(_Part):
    """Expected results; `muster simulate scenario --check` reports the differences."""

    jobs: dict[str, ExpectedJob] = Field(default_factory=dict)
    queues: dict[str, ExpectedQueue] = Field(default_factory=dict)
    scaling: ExpectedScaling | None = None


class Scenario(_Part):
    """A whole file."""

    description: str = ""
    nodes: Annotated[tuple[Node, ...], Field(max_length=NODES_MAX)]
    queues: Annotated[tuple[Queue, ...], Field(max_length=QUEUES_MAX)] = ()
    jobs: Annotated[tuple[Job, ...], Field(max_length=JOBS_MAX)] = ()
    reservations: Annotated[tuple[Reservation, ...], Field(max_length=RESERVATIONS_MAX)] = ()
    scaling: ScalingPart | None = None
    expect: Expected = Expected()


def parse(text: str) -> Scenario:
    """Parse a scenario from YAML or JSON. Raises InputError that names the field."""
    return checked(Scenario, read(text))
