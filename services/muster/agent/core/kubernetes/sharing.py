"""Parts of a GPU as extended resources: MIG profiles, MPS or time-slicing, as the cluster's settings name them."""

from collections.abc import Mapping
from dataclasses import dataclass

PARTS_MILLI = 1001
"""What a GPU counts that is only had in parts, as `muster.placement` has it: seven of 143 fit."""


def profile_for(gpu_milli: int, profiles: Mapping[str, int]) -> str | None:
    """The resource of the smallest part that is large enough; None if there is none.

    profiles: thousandths of a GPU by resource. Of two parts of one size the first by name.
    """
    fitting = [(milli, resource) for resource, milli in profiles.items() if milli >= gpu_milli]
    return min(fitting)[1] if fitting else None


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node gives of its shared GPUs. places: GPUs. milli: thousandths that each part has."""

    places: int = 0
    milli: int = 0


NO_PARTS = Parts()


def parts_of(allocatable: Mapping[str, int], profiles: Mapping[str, int]) -> Parts:
    """The node's parts, where all its GPUs are shared.

    allocatable: how many of each extended resource it has. A node has parts of one size: of several, those that are
    most of its GPUs, since nobody but the kubelet knows which GPU gives which. Pods of others on such a node are not
    taken off: a GPU of which they have a part would be lost whole.
    """
    offered = [(allocatable.get(resource, 0) * milli, milli, resource) for resource, milli in profiles.items()]
    most, milli, resource = max(offered, default=(0, 0, ""))
    if not most:
        return NO_PARTS
    return Parts(places=allocatable[resource] // (PARTS_MILLI // milli), milli=milli)
