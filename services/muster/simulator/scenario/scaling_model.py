"""The part of a scenario that scales: node groups, what is in the pool, and how long everything takes."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

from muster.schemas.base import Label, Name
from muster.schemas.facts.node import GPUS_PER_NODE_MAX

GROUPS_MAX = 64
GROUP_NODES_MAX = 10_000
CHOICES_MAX = 1_000
DAY_S = 86_400.0

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Whole = Annotated[int, Strict()]
Seconds = Annotated[Number, Field(ge=0, le=30 * DAY_S)]
Watts = Annotated[Number, Field(ge=0)]
Gpus = Annotated[Whole, Field(ge=0, le=GPUS_PER_NODE_MAX)]
Count = Annotated[Whole, Field(ge=0, le=GROUP_NODES_MAX)]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
    gpus: Gpus = 0
    gpus_min: Gpus = 0
    gpus_max: Gpus | None = None
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
    """One choice of the scaler; of it only what is named is compared. choice: attach, add, return or remove.

    case: 1 to 4. job: for whom. outcome: done, failed, or "" while it is under way.
    """

    choice: Annotated[str, Field(pattern="^(attach|add|return|remove|nothing)$")]
    case: Annotated[Whole, Field(ge=1, le=4)] | None = None
    job: str | None = None
    group: str | None = None
    node: str | None = None
    count: Whole | None = None
    outcome: str | None = None


class ExpectedGroup(_Part):
    """How many nodes a group has in the end, and how many GPUs stand on them."""

    nodes: Whole | None = None
    gpus: Whole | None = None


class ExpectedScaling(_Part):
    """choices: all that were made, in their order. groups: in the end. pool: what is free in the end."""

    choices: Annotated[tuple[ExpectedChoice, ...], Field(max_length=CHOICES_MAX)] | None = None
    groups: dict[str, ExpectedGroup] = Field(default_factory=dict)
    pool: dict[str, Whole] = Field(default_factory=dict)
