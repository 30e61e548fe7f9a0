"""In which order the jobs of a queue come: by rank, a moment in nanoseconds; the earlier, the sooner.

    rank = when it came - CLASS_S * priority - SIZE_S * log2(1 + GPUs) + USED_S * its principal's part of what the
           queue's jobs held lately

Everybody grows older alike, so age needs no term, and an order once found never changes. A queue of order `fifo` goes
by the moment alone. A job keeps its rank when it is queued again, held and released; only another priority moves it, by
as much as that would have at first.
"""

import math

from muster.core import NS_PER_S
from muster.placement import DEVICE_MILLI
from muster.quota.policy import Policy
from muster.schemas.facts.queue import QueueOrder
from muster.schemas.job import Job

CLASS_S = 600.0
"""Seconds by which one point of priority brings a job forward."""

SIZE_S = 60.0
"""Seconds by which a job comes forward each time that its GPUs double: what is large is hard to place."""

USED_S = 3_600.0
"""Seconds by which the jobs of a principal come later who alone held all that the queue's jobs held lately."""


def rank(job: Job, policy: Policy, *, came_at: int, used: float) -> int:
    """The job's place in line. used: its principal's part of what the queue's jobs held lately, 0 to 1."""
    if policy.order is QueueOrder.FIFO:
        return came_at
    gpus = job.spec.gpu_milli_total / DEVICE_MILLI
    earlier_s = CLASS_S * job.spec.priority + SIZE_S * math.log2(1 + gpus) - USED_S * used
    return came_at - round(earlier_s * NS_PER_S)


def moved(known: int, policy: Policy, *, was: int, priority: int) -> int:
    """A job's rank after its priority changed."""
    if policy.order is QueueOrder.FIFO:
        return known
    return known - round(CLASS_S * (priority - was) * NS_PER_S)
