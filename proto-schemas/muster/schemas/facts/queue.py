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
"""So much of each resource; a resource that is not named is not limited by it."""

RunTimeS = Annotated[float, Field(gt=0, le=RUN_TIME_S_MAX)]
SliceS = Annotated[float, Field(ge=0, le=RUN_TIME_S_MAX)]

SubmittingTeam = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$")]
"""The name of a team, or `*` for every team."""


class QueueOrder(StrEnum):
    """Who comes first in a queue and among the queues below it: the least served, or the first that came."""

    FAIR = "fair"
    FIFO = "fifo"


class WithinQueue(StrEnum):
    """Whom a job of the queue may preempt in its own queue."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER_EQUAL = "lower-or-newer-equal-priority"


class Reclaim(StrEnum):
    """Whom a job within its queue's nominal quota may preempt in queues that borrow."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


class FairShareRule(StrEnum):
    """When a borrowing queue may preempt another that borrows more.

    final-share: its share with the job is at most the other's without the victim. initial-share: its share with the
    job is below the other's with the victim.
    """

    FINAL_SHARE = "final-share"
    INITIAL_SHARE = "initial-share"


class OverSlice(StrEnum):
    """Whether a starving job may take the place of one of equal priority that ran out its slice."""

    NEVER = "never"
    STARVING = "starving"


class Defragment(StrEnum):
    """Whether running jobs are moved to make room for a gang: not at all, only said, or done."""

    NEVER = "never"
    ADVISE = "advise"
    MOVE = "move"


class PreemptionPolicy(Wire):
    """Whom jobs of this queue may preempt. None: as the queue above; at the top lower-priority, any, both, starving."""

    within_queue: WithinQueue | None = None
    reclaim: Reclaim | None = None
    fair_share: Annotated[tuple[FairShareRule, ...], Field(max_length=2)] | None = None
    over_slice: OverSlice | None = None


class QueueTemplate(Wire):
    """What a queue per user is made of when the user's first job comes; `QueueSpec` says what the fields mean."""

    quota: Amounts = Field(default_factory=dict)
    borrowing_limit: Amounts = Field(default_factory=dict)
    lending_limit: Amounts = Field(default_factory=dict)
    weight: Annotated[float, Field(gt=0)] = 1.0


class QueueSpec(Wire):
    """A queue.

    quota: nominal, what its jobs and those of the queues below it can always have. borrowing_limit: how much more they
    may have of what others leave (a resource not named: any amount). lending_limit: how much of the quota may be
    borrowed (not named: all). weight: share of what is borrowed. half_life_s: after so long past use counts half.
    starving_after_s: a job that waits longer gets a reservation. run_time_*, min_slice_*: for jobs that say nothing,
    and at most. user_template: jobs get a queue per user below this one. closed: takes no new jobs.
    None: as the queue above it, at the top the product's default.
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
    """Teams that may submit to this queue and to those below it, beside the team of its name. `*`: every team."""
    priority_max: Priority | None = None
    """Highest priority of its jobs, whoever asks. None: as the queue above, at the top 1000."""


class QueueChangeRequested(Payload):
    """`change-requested`, `change-forwarded`: an operator wants the queue to be so."""

    spec: QueueSpec
    principal: str


class QueueChanged(Payload):
    """`changed`: the queue is so from here on. Evicts nobody by itself."""

    spec: QueueSpec


class QueueChangeRefused(Payload):
    """`change-refused`: the queue stays as it was."""

    field: str
    reason: Text


class Used(Wire):
    """How much of a resource was held lately: `average` as of `at`, decaying towards what is held since.

    principal: whose jobs held it; empty for all of them together.
    """

    resource: Resource
    average: float
    at: InstantNs
    principal: str = ""


class QueueState(Payload):
    """`state-recorded` of a queue. used: by the queue and those below it."""

    spec: QueueSpec
    changed_at: InstantNs = 0
    used: tuple[Used, ...] = ()


class QueueWish(Wire):
    """A change that was asked for and not yet answered. fact: which fact asked; trace: its trace."""

    fact: str
    spec: QueueSpec
    principal: str = ""
    trace: str = ""


class QueueWishes(Payload):
    """`state-recorded` of a queue in the federation: changes that were not yet forwarded."""

    wishes: tuple[QueueWish, ...] = ()
