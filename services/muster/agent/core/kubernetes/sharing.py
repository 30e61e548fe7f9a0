"""Parts of a GPU as extended resources: MIG profiles, MPS or time-slicing, as the cluster's settings name them."""

from collections.abc import Mapping


def profile_for(gpu_milli: int, profiles: Mapping[str, int]) -> str | None:
    """The resource of the smallest part that is large enough; None if there is none.

    profiles: thousandths of a GPU by resource. Of two parts of one size the first by name.
    """
    fitting = [(milli, resource) for resource, milli in profiles.items() if milli >= gpu_milli]
    return min(fitting)[1] if fitting else None


def share_sizes(allocatable: Mapping[str, int], profiles: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes, ascending, in which this node gives parts of a GPU: `NodeJoined.share_milli`.

    allocatable: how many of each extended resource the node has.
    """
    return tuple(sorted({milli for resource, milli in profiles.items() if allocatable.get(resource, 0) > 0}))
