"""Whose turn it is: the one place that orders queues. A fairer policy replaces this function."""

from muster.scheduler.core.queues import QueueRecord

Turn = tuple[float, float, str]


def turn(queue: QueueRecord) -> Turn:
    """Sort key: the least milli-GPUs over nominal quota first, by weight; then the least held by weight; then the name.

    A queue without a nominal quota is never over it. Proposals of the decision that is being made count.
    """
    spec = queue.spec
    held = queue.held_milli + queue.pending_milli
    quota = spec.gpu_milli_quota
    over = max(0, held - quota) if quota is not None else 0
    return over / spec.weight, held / spec.weight, spec.name
