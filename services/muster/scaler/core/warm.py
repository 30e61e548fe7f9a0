"""The warm reserve: so many idle attached GPUs stay in a group, so that the next small job need not wait for any.

The reserve is a floor under what goes back to the pool. It is not filled by attaching, and a job that waits gets of it
what it needs, also on another node: for that it is kept.
"""

from muster.core.settings import GroupSettings


def beyond(group: GroupSettings, idle: int) -> int:
    """How many of a group's idle GPUs are beyond its reserve."""
    return max(0, idle - group.warm_gpus)
