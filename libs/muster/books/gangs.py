"""A job in the placement engine's words, and the slots of its facts as holds."""

from collections.abc import Sequence

from muster.placement import GangRequest, GroupRequest, Hold, TaskShape, TopologyWish
from muster.placement import Slot as Place
from muster.schemas.job import Job, Slot, Topology


def gang_of(job: Job) -> GangRequest:
    """What the placement engine is asked for this job."""
    spec = job.spec
    groups = tuple(
        GroupRequest(
            TaskShape(group.cpu_milli, group.memory_mib, group.gpus, group.gpu_milli, group.gpu_models, spec.full_node),
            group.replicas,
            group.min_replicas,
            _wish(group.topology),
        )
        for group in spec.task_groups
    )
    return GangRequest(groups, _wish(spec.topology), spec.same_model)


def hold_of(slot: Slot, gang: GangRequest) -> Hold:
    """What a slot holds; of a job that takes the whole node the amounts follow from the node."""
    shape = gang.groups[slot.group].shape
    place = Place(slot.group, slot.replica, slot.node, slot.devices, slot.gpu_milli)
    return Hold(0, 0, place) if shape.full_node else Hold(shape.cpu_milli, shape.memory_mib, place)


def same_place(place: Place, slot: Slot) -> bool:
    """Whether it is the same node, with the same part of the same devices."""
    return place.node == slot.node and place.devices == slot.devices and place.gpu_milli == slot.gpu_milli


def same_places(holds: Sequence[Hold], slots: Sequence[Slot]) -> bool:
    """Whether holds are exactly these slots, in their order."""
    return len(holds) == len(slots) and all(
        same_place(hold.slot, slot) for hold, slot in zip(holds, slots, strict=True)
    )


def _wish(topology: Topology | None) -> TopologyWish | None:
    return TopologyWish(topology.level, topology.required) if topology else None
