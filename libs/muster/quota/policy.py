"""The policy of a queue, inherited from the queue above and at the top from the product's defaults."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from muster.core import NS_PER_S
from muster.schemas.facts.queue import (
    Defragment,
    FairShareRule,
    OverSlice,
    QueueOrder,
    QueueSpec,
    Reclaim,
    WithinQueue,
)
from muster.schemas.job import JobSpec

DEPTH_MAX = 16
"""Levels of a tree of queues."""


@dataclass(frozen=True)
class Policy:
    """The resolved policy of one queue, as it applies to its jobs.

    The product's maximum of the time slice is a day: a job with a longer one would keep borrowed quota that long.
    """

    within_queue: WithinQueue = WithinQueue.LOWER_PRIORITY
    reclaim: Reclaim = Reclaim.ANY
    fair_share: tuple[FairShareRule, ...] = (FairShareRule.FINAL_SHARE, FairShareRule.INITIAL_SHARE)
    over_slice: OverSlice = OverSlice.STARVING
    starving_after_s: float = 1_800.0
    half_life_s: float = 7 * 86_400.0
    order: QueueOrder = QueueOrder.FAIR
    defragment: Defragment = Defragment.ADVISE
    run_time_default_s: float | None = None
    """None: no default; for the maximums, None is no maximum."""
    run_time_max_s: float | None = None
    min_slice_default_s: float | None = None
    min_slice_max_s: float | None = 86_400.0

    @cached_property
    def half_life_ns(self) -> float:
        """The half-life in nanoseconds."""
        return self.half_life_s * NS_PER_S

    def run_times(self, spec: JobSpec) -> tuple[float, float]:
        """Return a job's total run time and time slice in seconds: its own or the default, within the maximum."""
        total = _within(
            spec.total_run_time_s, "total_run_time_s" in spec.left_out, self.run_time_default_s, self.run_time_max_s
        )
        slice_s = _within(
            spec.min_slice_s, "min_slice_s" in spec.left_out, self.min_slice_default_s, self.min_slice_max_s
        )
        return total, slice_s


DEFAULT = Policy()
"""The product's defaults."""

_OWN = (
    "starving_after_s", "half_life_s", "order", "defragment", "run_time_default_s", "run_time_max_s",
    "min_slice_default_s", "min_slice_max_s",
)  # fmt: skip
_OF_PREEMPTION = ("within_queue", "reclaim", "fair_share", "over_slice")


def resolve(specs: Iterable[QueueSpec]) -> Policy:
    """Return the policy of the first of these queues; `specs` are of it and the queues above it, upwards."""
    found: dict[str, object] = {}
    for spec in specs:
        for source, names in ((spec, _OWN), (spec.preemption, _OF_PREEMPTION)):
            for name in names:
                value = getattr(source, name)
                if value is not None:
                    found.setdefault(name, value)
    return replace(DEFAULT, **found) if found else DEFAULT  # type: ignore[arg-type]  # each is a field's own type


def _within(value: float, is_left_out: bool, default: float | None, most: float | None) -> float:
    if is_left_out and default is not None:
        value = default
    return value if most is None else min(value, most)
