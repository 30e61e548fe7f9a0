"""Validates a queue's spec: returns the field, the reason, and what to do."""

from collections.abc import Mapping
from typing import NamedTuple

from muster.quota.admission import up
from muster.quota.amounts import nominal_of
from muster.quota.policy import DEPTH_MAX, resolve
from muster.quota.users import TEMPLATE_NAME_MAX
from muster.schemas.facts.queue import GPU, QueueSpec, QueueTemplate


class Refusal(NamedTuple):
    """Why a queue's spec is refused: the field, and a sentence."""

    field: str
    reason: str


def refusal_of(spec: QueueSpec, specs: Mapping[str, QueueSpec]) -> Refusal | None:
    """Return why the spec is invalid among these queues; None if it is valid."""
    return (
        _amounts(spec, prefix="")
        or _first_form(spec)
        or _times(spec)
        or _template(spec)
        or _place(spec, specs)
        or _slice(spec, specs)
    )


def _amounts(spec: QueueSpec | QueueTemplate, *, prefix: str) -> Refusal | None:
    for field, amounts in (
        ("quota", spec.quota),
        ("borrowing_limit", spec.borrowing_limit),
        ("lending_limit", spec.lending_limit),
    ):
        for resource, amount in amounts.items():
            if amount < 0:
                return Refusal(prefix + field, f"{field} of {resource} is {amount}: it must not be negative")
    nominal = nominal_of(spec)
    for resource, lending in spec.lending_limit.items():
        # a queue without its own quota lends that of the queues below it; a user queue has none below
        if (resource in nominal or isinstance(spec, QueueTemplate)) and lending > nominal.get(resource, 0):
            return Refusal(
                prefix + "lending_limit",
                f"the lending limit {lending} of {resource} is above its quota {nominal.get(resource, 0)}: "
                "a queue can lend only what is its own; raise the quota or lower the limit",
            )
    return None


def _first_form(spec: QueueSpec) -> Refusal | None:
    for name, value in (("gpu_milli_quota", spec.gpu_milli_quota), ("gpu_milli_limit", spec.gpu_milli_limit)):
        if value is not None and value < 0:
            return Refusal(name, f"{name} is {value}: it must not be negative; leave it out for no bound")
    limit, nominal = spec.gpu_milli_limit, nominal_of(spec).get(GPU)
    if limit is not None and nominal is not None and limit < nominal:
        return Refusal(
            "gpu_milli_limit", f"the limit {limit} is below the quota {nominal}: raise it or lower the quota"
        )
    return None


def _times(spec: QueueSpec) -> Refusal | None:
    for name, default, most in (
        ("run_time_default_s", spec.run_time_default_s, spec.run_time_max_s),
        ("min_slice_default_s", spec.min_slice_default_s, spec.min_slice_max_s),
    ):
        if default is not None and most is not None and default > most:
            return Refusal(name, f"the default {default:g} s is above the maximum {most:g} s: lower it or raise that")
    return None


def _slice(spec: QueueSpec, specs: Mapping[str, QueueSpec]) -> Refusal | None:
    """Refuse a default above the inherited maximum."""
    default, most = spec.min_slice_default_s, resolve((spec, *up(spec.parent or "", specs))).min_slice_max_s
    if default is None or most is None or default <= most:
        return None
    return Refusal(
        "min_slice_default_s",
        f"the default {default:g} s is above the maximum {most:g} s that holds here: lower it or set min_slice_max_s",
    )


def _template(spec: QueueSpec) -> Refusal | None:
    if spec.user_template is None:
        return None
    if len(spec.name) > TEMPLATE_NAME_MAX:
        return Refusal(
            "user_template",
            f"the name {spec.name} has {len(spec.name)} characters: a queue with a user_template has at most "
            f"{TEMPLATE_NAME_MAX}, because its users' queues are named after it",
        )
    return _amounts(spec.user_template, prefix="user_template.")


def _place(spec: QueueSpec, specs: Mapping[str, QueueSpec]) -> Refusal | None:
    if spec.parent is not None and spec.parent != spec.name and spec.parent not in specs:
        return Refusal("parent", f"there is no queue {spec.parent}: make it first")
    above, path = spec.parent, [spec.name]
    while above is not None:
        path.append(above)
        if above == spec.name:
            return Refusal("parent", f"the queue would stand above itself: {' -> '.join(path)}")
        if len(path) > len(specs) + 1:
            return Refusal(
                "parent", f"the queues above {spec.parent} stand above themselves: put one of them right first"
            )
        above = specs[above].parent if above in specs else None
    levels = len(path) + _levels_below(spec.name, specs)
    if levels > DEPTH_MAX:
        return Refusal("parent", f"the tree would have {levels} levels, at most {DEPTH_MAX} are possible: use fewer")
    return None


def _levels_below(name: str, specs: Mapping[str, QueueSpec]) -> int:
    children: dict[str, list[str]] = {}
    for other in specs.values():
        if other.parent is not None:
            children.setdefault(other.parent, []).append(other.name)
    level, depth = children.get(name, []), 0
    while level and depth <= DEPTH_MAX:
        depth += 1
        level = [below for above in level for below in children.get(above, ())]
    return depth
