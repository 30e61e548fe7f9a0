"""The types of placement: what a node offers, what a gang requests, what a placement holds.

All are immutable and hashable, because requests are the keys under which the engine caches that something does not fit.
CPU is in thousandths of a core, memory in MiB, GPUs in thousandths of one device.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

DEVICE_MILLI = 1000
"""A whole device, in thousandths."""

NODE_LEVEL = "node"
"""The narrowest topology level; every fleet has it without a declaration."""


PARTS_MILLI = DEVICE_MILLI + 1
"""The size of a device that can only be used in parts. It never equals the size of a whole device, and seven parts of
143, as the smallest MIG profile has them, fit."""

NO_SHARES = (0,)
"""`NodeShape.share_sizes` of a node that offers no part of a device."""

SIZES_KNOWN_MAX = 4_096
"""Cached answers of `share_of`."""


@lru_cache(SIZES_KNOWN_MAX)
def share_of(gpu_milli: int, sizes: tuple[int, ...]) -> int:
    """Return what a share takes of a device: the smallest sufficient size, 0 if none; any without sizes."""
    if not sizes:
        return gpu_milli
    return next((size for size in sizes if size >= gpu_milli), 0)


class ShapeError(ValueError):
    """An inconsistent node or request; the message names the field."""


class HoldError(ValueError):
    """A hold or release that the fleet's ledger does not allow; nothing was changed."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Offer of a node.

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
        """The indexes of the present devices."""
        if not self.absent:
            return range(self.gpu_count)
        return [index for index in range(self.gpu_count) if index not in self.absent]

    @property
    def device_count(self) -> int:
        """Number of present devices."""
        return self.gpu_count - len(self.absent)

    @property
    def device_milli(self) -> int:
        """The size of a device of which nothing is held."""
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
    """The request of one replica: `gpus` whole devices, or `gpu_milli` thousandths of one device, or no GPU.

    `gpu_models` limits the models of the node (empty: any), `models_excluded` lists models that must not be used.
    `full_node` requests an empty node of at least this size, and takes all of it. `within` requests the replica's
    devices in one domain of a level inside the node; unless `within_required`, any node will do, but such nodes come
    first. Without it too, devices are chosen as close together as the node allows. Raises ShapeError for negative
    amounts, for both kinds of GPU request at once, and for `within_required` without `within`.
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
            raise ShapeError(f"gpu_milli must be 0 to 999, not {self.gpu_milli}: request a whole device with gpus=1")
        if self.gpus and self.gpu_milli:
            raise ShapeError("gpus and gpu_milli exclude each other: request whole devices or a share of one")
        if self.within_required and not self.within:
            raise ShapeError("within_required needs within: name the level inside nodes")

    def __hash__(self) -> int:
        # Shapes are looked up for every decision: hash the fields that differ between most of them.
        return hash((self.cpu_milli, self.memory_mib, self.gpus, self.gpu_milli, self.gpu_models))

    @property
    def holds_devices(self) -> bool:
        """Whether a replica is known to hold devices; for a full node this is unknown before placement."""
        return bool(self.gpus or self.gpu_milli)


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """A topology request: replicas close together within one domain of `level`, required or preferred.

    For "node" or a level of nodes, all replicas are in one domain. For a level inside nodes ("socket"), it applies to
    the devices of each replica.
    """

    level: str
    required: bool


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """`replicas` tasks of one shape, at least `least` of them (None: all); then as many are placed as fit.

    `topology` is for this group's replicas, within the gang's own request. Raises ShapeError for less than one replica
    and for a `least` that is not 1 to `replicas`.
    """

    shape: TaskShape
    replicas: int
    least: int | None = None
    topology: TopologyRequest | None = None

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ShapeError(f"replicas must be at least 1, not {self.replicas}")
        if self.least is not None and not 1 <= self.least <= self.replicas:
            raise ShapeError(f"least must be 1 to replicas ({self.replicas}), not {self.least}")

    @property
    def replicas_least(self) -> int:
        """The minimum of replicas with which the gang runs."""
        return self.replicas if self.least is None else self.least


@dataclass(frozen=True, slots=True)
class GangRequest:
    """Task groups that run together or not at all; with `same_model` all GPUs are of one model."""

    groups: tuple[GroupRequest, ...]
    topology: TopologyRequest | None = None
    same_model: bool = False

    def __post_init__(self) -> None:
        if not self.groups:
            raise ShapeError("groups must name at least one task group")

    @property
    def needs_devices(self) -> bool:
        """Whether every replica requests a device or a share of one."""
        return all(group.shape.gpus or group.shape.gpu_milli for group in self.groups)

    @property
    def is_elastic(self) -> bool:
        """Whether fewer replicas than requested may be placed."""
        return any(group.replicas_least < group.replicas for group in self.groups)

    @property
    def least(self) -> "GangRequest":
        """The gang with its minimum replicas."""
        return self.limited([group.replicas_least for group in self.groups])

    def limited(self, counts: Sequence[int]) -> "GangRequest":
        """Return the gang with at most these replicas per group. Raise ShapeError for a count below a group's least."""
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

    def of_model(self, model: str) -> "GangRequest | None":
        """Return the gang on nodes of this GPU model; groups that request no device may be placed anywhere.

        None if a group does not allow the model.
        """
        groups = []
        for group in self.groups:
            shape = group.shape
            if shape.holds_devices or shape.full_node:
                if model in shape.models_excluded or (shape.gpu_models and model not in shape.gpu_models):
                    return None
                shape = replace(shape, gpu_models=(model,), models_excluded=())
            groups.append(replace(group, shape=shape))
        return replace(self, groups=tuple(groups))

    def without_models(self, models: Iterable[str]) -> "GangRequest | None":
        """Return the gang without these GPU models; groups that request no device may be placed anywhere.

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
    """The place of one replica. `gpu_milli` is per device: 1000 for whole devices, the share, or 0 without a GPU."""

    group: int
    replica: int
    node: str
    devices: tuple[int, ...]
    gpu_milli: int

    @property
    def gpu_milli_held(self) -> int:
        """Milli-GPUs that it holds."""
        return self.gpu_milli * len(self.devices)


@dataclass(frozen=True, slots=True)
class Hold:
    """Capacity that one replica takes from its node."""

    cpu_milli: int
    memory_mib: int
    slot: Slot


class ShortageReason(StrEnum):
    """The missing resource, as a stable code."""

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
    """Why a gang does not fit: a stable code, and a sentence with the numbers at the time of the search."""

    reason: ShortageReason
    detail: str


@dataclass(frozen=True, slots=True)
class GpuTotals:
    """Milli-GPUs of one model: all of them, those held, and those idle on usable devices of usable nodes."""

    total_milli: int
    used_milli: int
    free_milli: int
