"""The words of placement: what a node offers, what a gang asks, what a placement holds.

Everything here is immutable and hashable, because requests are the keys under which the engine remembers that
something does not fit. CPU is counted in thousandths of a core, memory in MiB, GPUs in thousandths of one device.
"""

from dataclasses import dataclass
from enum import StrEnum

DEVICE_MILLI = 1000
"""A whole device, in the unit in which devices are shared."""

NODE_LEVEL = "node"
"""The narrowest topology level: it exists in every fleet without being declared."""


class ShapeError(ValueError):
    """A node or request that contradicts itself; the message names the field."""


class HoldError(ValueError):
    """A hold or release that the fleet's books do not allow; nothing was changed."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a node offers.

    `domains` names the node's place in the topology, widest level first: `(("block", "b0"), ("rack", "r3"))`.
    Raises ShapeError for negative amounts and for a level named twice or named "node".
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_count: int
    gpu_model: str
    domains: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.gpu_count) < 0:
            raise ShapeError(f"node {self.name}: cpu_milli, memory_mib and gpu_count must not be negative")
        levels = [level for level, _ in self.domains]
        if len(set(levels)) < len(levels) or NODE_LEVEL in levels:
            raise ShapeError(f"node {self.name}: domains must name each level once, and none of them 'node'")


@dataclass(frozen=True, slots=True)
class TaskShape:
    """What one replica asks: `gpus` whole devices, or `gpu_milli` thousandths of one device, or no GPU.

    `gpu_models` limits the models of the node (empty: any). `full_node` asks for an empty node of at least this
    size and takes all of it. Raises ShapeError for negative amounts and for both kinds of GPU request at once.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    full_node: bool = False

    def __post_init__(self) -> None:
        if self.cpu_milli < 0 or self.memory_mib < 0 or self.gpus < 0:
            raise ShapeError("cpu_milli, memory_mib and gpus must not be negative")
        if not 0 <= self.gpu_milli < DEVICE_MILLI:
            raise ShapeError(f"gpu_milli must be 0 to 999, not {self.gpu_milli}: ask for a whole device with gpus=1")
        if self.gpus and self.gpu_milli:
            raise ShapeError("gpus and gpu_milli exclude each other: ask for whole devices or for a share of one")


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """`replicas` tasks of one shape."""

    shape: TaskShape
    replicas: int

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ShapeError(f"replicas must be at least 1, not {self.replicas}")


@dataclass(frozen=True, slots=True)
class TopologyWish:
    """All replicas within one domain of `level` ("node" or a level that nodes declare): required, or preferred."""

    level: str
    required: bool


@dataclass(frozen=True, slots=True)
class GangRequest:
    """Task groups that run together or not at all."""

    groups: tuple[GroupRequest, ...]
    topology: TopologyWish | None = None

    def __post_init__(self) -> None:
        if not self.groups:
            raise ShapeError("groups must name at least one task group")


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one replica runs. `gpu_milli` is per device: 1000 for whole devices, the share, or 0 without a GPU."""

    group: int
    replica: int
    node: str
    devices: tuple[int, ...]
    gpu_milli: int


@dataclass(frozen=True, slots=True)
class Hold:
    """What one replica takes from its node."""

    cpu_milli: int
    memory_mib: int
    slot: Slot


class ShortageReason(StrEnum):
    """What is missing, as a stable code."""

    NO_NODE = "no-node"
    MODEL = "model"
    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"
    FRAGMENTED = "fragmented"
    TOPOLOGY = "topology"


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a gang does not fit: a stable code, and a sentence with the numbers at the time it was found."""

    reason: ShortageReason
    detail: str


@dataclass(frozen=True, slots=True)
class GpuTotals:
    """Milli-GPUs of one model: all of them, those held, and those idle on usable devices of usable nodes."""

    total_milli: int
    used_milli: int
    free_milli: int
