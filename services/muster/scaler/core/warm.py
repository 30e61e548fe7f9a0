"""The warm reserve: so many idle attached GPUs stay in a group, so that the next small job need not wait for any.

The reserve is a floor under what is taken away; it is not filled by attaching.
"""

from muster.scaler.core.groups import NodeGroup


def beyond(group: NodeGroup, idle: int) -> int:
    """How many of a group's idle GPUs are beyond its reserve."""
    return max(0, idle - group.warm_gpus)
