"""Facts of queues."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from muster.schemas.base import InstantNs, Name, Payload, Text, Wire
from muster.schemas.job import RUN_TIME_S_MAX, Priority

RESOURCES_MAX = 64
TEAMS_MAX = 256
EVERY_TEAM = "*"
GPU, CPU, MEMORY = "gpu_milli", "cpu_milli", "memory_mib"

Resource = Annotated[
    str, StringConstraints(pattern=r"^(gpu_milli(:[A-Za-z0-9][A-Za-z0-9._-]{0,62})?|cpu_milli|memory_mib)$")
]
"""`gpu_milli` (GPUs of any model), `gpu_milli:<model>`, `cpu_milli` or `memory_mib`."""

Amounts = Annotated[dict[Resource, Annotated[int, Field(ge=0)]], Field(max_length=RESOURCES_MAX)]
"""Amounts by resource; a resource that is not named is not limited."""

RunTimeS = Annotated[float, Field(gt=0, le=RUN_TIME_S_MAX)]
SliceS = Annotated[float, Field(ge=0, le=RUN_TIME_S_MAX)]

SubmittingTeam = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$")]
"""The name of a team, or `*` for every team."""


class QueueOrder(StrEnum):
    """Order within a queue and among its children: fair share, or first in first out."""

    FAIR = "fair"
    FIFO = "fifo"


class WithinQueue(StrEnum):
    """Which jobs of its own queue a job may preempt."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER_EQUAL = "lower-or-newer-equal-priority"


class Reclaim(StrEnum):
    """Which jobs of borrowing queues a job within its queue's nominal quota may preempt."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


class FairShareRule(StrEnum):
    """When a borrowing queue may preempt another one that borrows more.

    final-share: its share with the job is at most the other's without the target. initial-share: its share with the
    job is below the other's with the target.
    """

    FINAL_SHARE = "final-share"
    INITIAL_SHARE = "initial-share"


class OverSlice(StrEnum):
    """Whether a starving job may preempt a job of equal priority whose time slice is over."""

    NEVER = "never"
    STARVING = "starving"


class Defragment(StrEnum):
    """Whether running jobs are moved to make room for a gang: never, only advised, or done."""

    NEVER = "never"
    ADVISE = "advise"
    MOVE = "move"


class PreemptionPolicy(Wire):
    """Which jobs this queue's jobs may preempt. None: as the parent queue; default lower-priority, any, both,
    starving."""

    within_queue: WithinQueue | None = None
    reclaim: Reclaim | None = None
    fair_share: Annotated[tuple[FairShareRule, ...], Field(max_length=2)] | None = None
    over_slice: OverSlice | None = None


class QueueTemplate(Wire):
    """Template of a queue per user, created with the user's first job; `QueueSpec` documents the fields."""

    quota: Amounts = Field(default_factory=dict)
    borrowing_limit: Amounts = Field(default_factory=dict)
    lending_limit: Amounts = Field(default_factory=dict)
    weight: Annotated[float, Field(gt=0)] = 1.0


class QueueSpec(Wire):
    """A queue.

    quota: nominal quota of its jobs and its child queues. borrowing_limit: how much they may borrow beyond it (a
    resource not named: any amount). lending_limit: how much of the quota may be lent (not named: all). weight:
    share of what is borrowed. half_life_s: half-life of past use. starving_after_s: a job that waits longer gets a
    reservation. run_time_*, min_slice_*: defaults and maxima for jobs. user_template: jobs get a queue per user
    below this one. closed: accepts no new jobs. None: as the parent queue, for a top queue the default.
    gpu_milli_quota, gpu_milli_limit: the first form of quota and of quota plus borrowing limit, still read.
    """

    name: Name
    parent: Name | None = None
    gpu_milli_quota: Annotated[int, Field(ge=0)] | None = None
    gpu_milli_limit: Annotated[int, Field(ge=0)] | None = None
    weight: Annotated[float, Field(gt=0)] = 1.0
    closed: bool = False
    quota: Amounts = Field(default_factory=dict)
    borrowing_limit: Amounts = Field(default_factory=dict)
    lending_limit: Amounts = Field(default_factory=dict)
    order: QueueOrder | None = None
    half_life_s: Annotated[float, Field(gt=0, le=RUN_TIME_S_MAX)] | None = None
    starving_after_s: Annotated[float, Field(ge=0, le=RUN_TIME_S_MAX)] | None = None
    run_time_default_s: RunTimeS | None = None
    run_time_max_s: RunTimeS | None = None
    min_slice_default_s: SliceS | None = None
    min_slice_max_s: SliceS | None = None
    preemption: PreemptionPolicy = PreemptionPolicy()
    defragment: Defragment | None = None
    user_template: QueueTemplate | None = None
    teams: Annotated[tuple[SubmittingTeam, ...], Field(max_length=TEAMS_MAX)] = ()
    """Teams that may submit to this queue and its child queues, besides the team of its name. `*`: every team."""
    priority_max: Priority | None = None
    """Maximum priority of its jobs. None: as the parent queue, for a top queue 1000."""


class QueueChangeRequested(Payload):
    """`change-requested`, `change-forwarded`: an operator requests this specification of the queue."""

    spec: QueueSpec
    principal: str


class QueueChanged(Payload):
    """`changed`: the queue has this specification from here on. It preempts no job by itself."""

    spec: QueueSpec


class QueueChangeRefused(Payload):
    """`change-refused`: no change was applied."""

    field: str
    reason: Text


class Used(Wire):
    """Decayed use of a resource: `average` at `at`, moving towards the present use.

    principal: the owner of the jobs; empty for all jobs together.
    """

    resource: Resource
    average: float
    at: InstantNs
    principal: str = ""


class QueueState(Payload):
    """`state-recorded` of a queue. used: by the queue and its child queues."""

    spec: QueueSpec
    changed_at: InstantNs = 0
    used: tuple[Used, ...] = ()


class PendingQueueChange(Wire):
    """A change without an answer yet. fact: id of the fact that requested it; trace: its trace."""

    fact: str
    spec: QueueSpec
    principal: str = ""
    trace: str = ""


class PendingQueueChanges(Payload):
    """`state-recorded` of a queue in the federation: changes that are not forwarded yet."""

    wishes: tuple[PendingQueueChange, ...] = ()
