"""Amounts of resources, as quota counts them: `gpu_milli`, `gpu_milli:<model>`, `cpu_milli`, `memory_mib`.

CPU and memory count as requested; GPUs count as held, so that a job of whole nodes counts with every GPU of them. Of
which model its GPUs are is known once a job is placed; what asks for one model only counts for that model before.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from muster.placement import DEVICE_MILLI, GangRequest
from muster.placement import Slot as Place
from muster.schemas.facts.queue import CPU, GPU, MEMORY, QueueSpec, QueueTemplate
from muster.schemas.job import Slot

Amounts = Mapping[str, int]
"""Resource -> amount, in the unit that the resource's name says. What is not named is zero."""

NO_AMOUNTS: Amounts = MappingProxyType({})
"""Nothing."""

UNLIMITED = 1 << 60
"""No bound: far above every amount, and still an integer that can be added to others."""

MODELS_KNOWN_MAX = 1_024
"""Names of GPU models whose resource is remembered."""

_NOT_IN_RESOURCE = re.compile(r"[^A-Za-z0-9._-]+")
_RESOURCE_MODEL_MAX = 63


@lru_cache(maxsize=MODELS_KNOWN_MAX)
def model_resource(model: str) -> str:
    """The resource of one model's GPUs; characters that a resource may not have become hyphens; "" for no model."""
    name = _NOT_IN_RESOURCE.sub("-", model).lstrip("._-")[:_RESOURCE_MODEL_MAX]
    return f"{GPU}:{name}" if name else ""


def gang_amounts(gang: GangRequest, counts: Sequence[int] | None = None) -> dict[str, int]:
    """What a gang asks for. counts: replicas per group instead of all of them."""
    gpu = cpu = memory = 0
    by_model: dict[str, int] = {}
    for group, replicas in zip(gang.groups, counts or [g.replicas for g in gang.groups], strict=True):
        shape = group.shape
        milli = replicas * (shape.gpus * DEVICE_MILLI + shape.gpu_milli)
        gpu, cpu, memory = gpu + milli, cpu + replicas * shape.cpu_milli, memory + replicas * shape.memory_mib
        if len(shape.gpu_models) == 1 and (resource := model_resource(shape.gpu_models[0])):
            by_model[resource] = by_model.get(resource, 0) + milli
    asked = {GPU: gpu, CPU: cpu, MEMORY: memory, **by_model}
    return {resource: amount for resource, amount in asked.items() if amount}


def held_amounts(
    slots: Sequence[Slot] | Sequence[Place], gang: GangRequest, model_of: Callable[[str], str]
) -> dict[str, int]:
    """What these slots hold. model_of: the GPU model of a node, "" if it is not known (then no model is counted)."""
    gpu = cpu = memory = 0
    by_model: dict[str, int] = {}
    for slot in slots:
        shape = gang.groups[slot.group].shape
        cpu, memory = cpu + shape.cpu_milli, memory + shape.memory_mib
        milli = slot.gpu_milli_held
        if milli:
            gpu += milli
            resource = model_resource(model_of(slot.node))
            if resource:
                by_model[resource] = by_model.get(resource, 0) + milli
    held = {GPU: gpu, CPU: cpu, MEMORY: memory, **by_model}
    return {resource: amount for resource, amount in held.items() if amount}


def nominal_of(spec: QueueSpec | QueueTemplate) -> dict[str, int]:
    """Nominal quota by resource, the first form of a queue's fields included."""
    quota = dict(spec.quota)
    if isinstance(spec, QueueSpec) and spec.gpu_milli_quota is not None:
        quota.setdefault(GPU, spec.gpu_milli_quota)
    return quota


def borrowing_of(spec: QueueSpec | QueueTemplate) -> dict[str, int]:
    """Borrowing limits by resource; the first form's limit is that of quota and what is borrowed together."""
    limits = dict(spec.borrowing_limit)
    if isinstance(spec, QueueSpec) and spec.gpu_milli_limit is not None:
        limits.setdefault(GPU, max(0, spec.gpu_milli_limit - nominal_of(spec).get(GPU, 0)))
    return limits


def changes(after: Amounts, before: Amounts) -> tuple[tuple[int, dict[str, int]], ...]:
    """What must be added (sign 1) to `before` and taken from it (sign -1) to have `after`."""
    more = {r: amount for r, old in after.items() if (amount := old - before.get(r, 0)) > 0}
    less = {r: amount for r, old in before.items() if (amount := old - after.get(r, 0)) > 0}
    return (1, more), (-1, less)
