"""Amounts of resources, as quota counts them: `gpu_milli`, `gpu_milli:<model>`, `cpu_milli`, `memory_mib`.

CPU and memory count as requested; GPUs count as held, so that a job of whole nodes counts with all their GPUs. The GPU
model of a job is known once it is placed; before, a request counts for a model only if it allows no other one.
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
"""Resource -> amount, in the unit of the resource's name. A missing resource has the amount zero."""

NO_AMOUNTS: Amounts = MappingProxyType({})
"""No amounts."""

UNLIMITED = 1 << 60
"""No limit: far above every amount, and still an integer that can be added to others."""

MODELS_KNOWN_MAX = 1_024
"""Names of GPU models whose resource is cached."""

_NOT_IN_RESOURCE = re.compile(r"[^A-Za-z0-9._-]+")
_RESOURCE_MODEL_MAX = 63


@lru_cache(maxsize=MODELS_KNOWN_MAX)
def model_resource(model: str) -> str:
    """Return the resource of one model's GPUs, with invalid characters replaced by hyphens; "" for no model."""
    name = _NOT_IN_RESOURCE.sub("-", model).lstrip("._-")[:_RESOURCE_MODEL_MAX]
    return f"{GPU}:{name}" if name else ""


def gang_amounts(gang: GangRequest, counts: Sequence[int] | None = None) -> dict[str, int]:
    """Return the request of a gang; `counts` has the replicas per group, by default all."""
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
    """Return what these slots hold. `model_of` returns a node's GPU model; "" (unknown) counts no model."""
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
    """Return the nominal quota by resource, including the field `gpu_milli_quota`."""
    quota = dict(spec.quota)
    if isinstance(spec, QueueSpec) and spec.gpu_milli_quota is not None:
        quota.setdefault(GPU, spec.gpu_milli_quota)
    return quota


def borrowing_of(spec: QueueSpec | QueueTemplate) -> dict[str, int]:
    """Return the borrowing limits by resource; `gpu_milli_limit` limits quota and borrowed amounts together."""
    limits = dict(spec.borrowing_limit)
    if isinstance(spec, QueueSpec) and spec.gpu_milli_limit is not None:
        limits.setdefault(GPU, max(0, spec.gpu_milli_limit - nominal_of(spec).get(GPU, 0)))
    return limits


def changes(after: Amounts, before: Amounts) -> tuple[tuple[int, dict[str, int]], ...]:
    """Return the amounts to add to `before` (sign 1) and to subtract from it (sign -1) to get `after`."""
    more = {r: amount for r, old in after.items() if (amount := old - before.get(r, 0)) > 0}
    less = {r: amount for r, old in before.items() if (amount := old - after.get(r, 0)) > 0}
    return (1, more), (-1, less)
