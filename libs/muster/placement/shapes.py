"""The words of placement: what a node offers, what a gang asks, what a placement holds.

Everything here is immutable and hashable, because requests are the keys under which the engine remembers that
something does not fit. CPU is counted in thousandths of a core, memory in MiB, GPUs in thousandths of one device.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

DEVICE_MILLI = 1000
"""A whole device, in the unit in which devices are shared."""

NODE_LEVEL = "node"
"""The narrowest topology level: it exists in every fleet without being declared."""


PARTS_MILLI = DEVICE_MILLI + 1
"""What a device counts of which only parts can be had. No idle amount of it is ever that of a whole device, and seven
parts of 143, as the smallest profile of MIG gives them, fit.
"""

NO_SHARES = (0,)
"""`NodeShape.share_sizes` of a node on which no part of a device can be had."""

SIZES_KNOWN_MAX = 4_096
"""Answers to what a share takes that are remembered."""


@lru_cache(SIZES_KNOWN_MAX)
def share_of(gpu_milli: int, sizes: tuple[int, ...]) -> int:
    """What a share takes of a device: the smallest of these sizes that is enough; 0 if none is. No sizes: any."""
    if not sizes:
        return gpu_milli
    return next((size for size in sizes if size >= gpu_milli), 0)


class ShapeError(ValueError):
    """A node or request that contradicts itself; the message names the field."""


class HoldError(ValueError):
    """A hold or release that the fleet's books do not allow; nothing was changed."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a node offers.

    `domains` names the node's place in the topology, widest level first: `(("block", "b0"), ("rack", "r3"))`.
    `device_domains` is the same inside the node, widest level first, with the domain number of each device by index:
    `(("socket", (0, 0, 1, 1)), ("pair", (0, 0, 1, 1)))`. Each domain lies within one of the level before.

    `gpu_count` is the number of places for devices, which are known by their index; `absent` names those without one.
    `share_sizes` are the parts of a device that can be had, ascending; (): any, NO_SHARES: none. `parts_only`: no
    device can be had whole, nor the node.

    Raises ShapeError for negative amounts, for a level named twice or named "node", for device domains that do not
    number every place or are not nested, for an absent index that is no place, and for sizes out of order.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_count: int
    gpu_model: str
    domains: tuple[tuple[str, str], ...] = ()
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    absent: frozenset[int] = frozenset()
    share_sizes: tuple[int, ...] = ()
    parts_only: bool = False

    def __post_init__(self) -> None:
        if self.share_sizes and self.share_sizes != NO_SHARES:
            self._check_share_sizes()
        if self.absent and not self.absent.issubset(range(self.gpu_count)):
            raise ShapeError(f"node {self.name}: absent must name places from 0 to {self.gpu_count - 1}")
        if min(self.cpu_milli, self.memory_mib, self.gpu_count) < 0:
            raise ShapeError(f"node {self.name}: cpu_milli, memory_mib and gpu_count must not be negative")
        levels = [level for level, _ in self.domains] + [level for level, _ in self.device_domains]
        if len(set(levels)) < len(levels) or NODE_LEVEL in levels or "" in levels:
            raise ShapeError(
                f"node {self.name}: domains and device_domains must name each level once, and none of them 'node' or ''"
            )
        self._check_device_domains()

    @property
    def devices(self) -> Sequence[int]:
        """The indexes of the devices that are there."""
        if not self.absent:
            return range(self.gpu_count)
        return [index for index in range(self.gpu_count) if index not in self.absent]

    @property
    def device_count(self) -> int:
        """How many devices are there."""
        return self.gpu_count - len(self.absent)

    @property
    def device_milli(self) -> int:
        """What a device counts with nothing held of it."""
        return PARTS_MILLI if self.parts_only else DEVICE_MILLI

    def _check_share_sizes(self) -> None:
        sizes = self.share_sizes
        if sorted(set(sizes)) != list(sizes) or not 0 < sizes[0] <= sizes[-1] <= DEVICE_MILLI:
            raise ShapeError(f"node {self.name}: share_sizes must be 1 to 1000, ascending, not {sizes}")

    def _check_device_domains(self) -> None:
        above: tuple[int, ...] = (0,) * self.gpu_count
        for level, numbers in self.device_domains:
            if len(numbers) != self.gpu_count:
                raise ShapeError(
                    f"node {self.name}: device_domains must number each of {self.gpu_count} devices,"
                    f" level {level!r} has {len(numbers)} numbers"
                )
            if len(set(zip(numbers, above, strict=True))) > len(set(numbers)):
                raise ShapeError(
                    f"node {self.name}: each domain of level {level!r} must lie within one of the level before it"
                )
            above = numbers


@dataclass(frozen=True, slots=True)
class TaskShape:
    """What one replica asks: `gpus` whole devices, or `gpu_milli` thousandths of one device, or no GPU.

    `gpu_models` limits the models of the node (empty: any), `models_excluded` names those that will not do.
    `full_node` asks for an empty node of at least this size and takes all of it. `within` wishes the replica's devices
    in one domain of a level inside the node; unless `within_required` any node will do, but those come first where it
    holds. Without a wish too devices are chosen as close together as the chosen node allows.

    Raises ShapeError for negative amounts, for both kinds of GPU request at once, and for `within_required` without
    `within`.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    full_node: bool = False
    within: str = ""
    within_required: bool = False
    models_excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.cpu_milli < 0 or self.memory_mib < 0 or self.gpus < 0:
            raise ShapeError("cpu_milli, memory_mib and gpus must not be negative")
        if not 0 <= self.gpu_milli < DEVICE_MILLI:
            raise ShapeError(f"gpu_milli must be 0 to 999, not {self.gpu_milli}: ask for a whole device with gpus=1")
        if self.gpus and self.gpu_milli:
            raise ShapeError("gpus and gpu_milli exclude each other: ask for whole devices or for a share of one")
        if self.within_required and not self.within:
            raise ShapeError("within_required needs within: name the level inside nodes")

    def __hash__(self) -> int:
        # Shapes are looked up for every decision: what tells most of them apart is enough.
        return hash((self.cpu_milli, self.memory_mib, self.gpus, self.gpu_milli, self.gpu_models))

    @property
    def holds_devices(self) -> bool:
        """Whether a replica holds devices, as far as the request tells: a full node's are not known before."""
        return bool(self.gpus or self.gpu_milli)


@dataclass(frozen=True, slots=True)
class TopologyWish:
    """Close together, within one domain of `level`: required, or preferred.

    Of "node" or a level that nodes declare, all replicas stand in one domain. Of a level that nodes declare inside
    themselves ("socket"), it is the devices of each replica.
    """

    level: str
    required: bool


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """`replicas` tasks of one shape. `least` of them will do (None: all), and then as many are placed as fit.

    `topology` is for this group's replicas, within the gang's own wish. Raises ShapeError for less than one replica and
    for a least that is not 1 to replicas.
    """

    shape: TaskShape
    replicas: int
    least: int | None = None
    topology: TopologyWish | None = None

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ShapeError(f"replicas must be at least 1, not {self.replicas}")
        if self.least is not None and not 1 <= self.least <= self.replicas:
            raise ShapeError(f"least must be 1 to replicas ({self.replicas}), not {self.least}")

    @property
    def replicas_least(self) -> int:
        """With fewer replicas the gang does not run."""
        return self.replicas if self.least is None else self.least


@dataclass(frozen=True, slots=True)
class GangRequest:
    """Task groups that run together or not at all. same_model: all replicas with GPUs on nodes of one GPU model."""

    groups: tuple[GroupRequest, ...]
    topology: TopologyWish | None = None
    same_model: bool = False

    def __post_init__(self) -> None:
        if not self.groups:
            raise ShapeError("groups must name at least one task group")

    @property
    def needs_devices(self) -> bool:
        """Whether every replica asks for a device or a share of one."""
        return all(group.shape.gpus or group.shape.gpu_milli for group in self.groups)

    @property
    def is_elastic(self) -> bool:
        """Whether fewer replicas than asked may do."""
        return any(group.replicas_least < group.replicas for group in self.groups)

    def limited(self, counts: Sequence[int]) -> "GangRequest":
        """At most so many replicas of each group. Raises ShapeError for a count below a group's least or missing."""
        if len(counts) != len(self.groups):
            raise ShapeError(f"counts must name {len(self.groups)} groups, not {len(counts)}")
        if all(count >= group.replicas for count, group in zip(counts, self.groups, strict=True)):
            return self
        for group, count in zip(self.groups, counts, strict=True):
            if count < group.replicas_least:
                raise ShapeError(f"counts must leave each group its least: {group.replicas_least}, not {count}")
        groups = zip(self.groups, counts, strict=True)
        return replace(
            self, groups=tuple(replace(group, replicas=min(count, group.replicas)) for group, count in groups)
        )

    def without_models(self, models: Iterable[str]) -> "GangRequest | None":
        """The same, but on no node of these GPU models; groups that ask for no device are free to go anywhere.

        None if a group allows no other model.
        """
        barred = frozenset(models)
        if not barred:
            return self
        groups = []
        for group in self.groups:
            shape = _without(group.shape, barred)
            if shape is None:
                return None
            groups.append(group if shape is group.shape else replace(group, shape=shape))
        return replace(self, groups=tuple(groups))


def _without(shape: TaskShape, barred: frozenset[str]) -> TaskShape | None:
    if not shape.holds_devices and not shape.full_node:
        return shape
    if not shape.gpu_models:
        return replace(shape, models_excluded=tuple(sorted(barred.union(shape.models_excluded))))
    allowed = tuple(model for model in shape.gpu_models if model not in barred)
    return replace(shape, gpu_models=allowed) if allowed else None


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one replica runs. `gpu_milli` is per device: 1000 for whole devices, the share, or 0 without a GPU."""

    group: int
    replica: int
    node: str
    devices: tuple[int, ...]
    gpu_milli: int

    @property
    def gpu_milli_held(self) -> int:
        """Milli-GPUs that are held."""
        return self.gpu_milli * len(self.devices)


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
    HEALTH = "health"


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
