"""Conversions of jobs to gang requests, and of the slots of facts to holds and back."""

from collections.abc import Sequence

from muster.placement import GangRequest, GroupRequest, Hold, TaskShape, TopologyRequest
from muster.placement import Slot as Place
from muster.schemas.job import Job, Slot, Topology


def gang_of(job: Job) -> GangRequest:
    """Return the job's request to the placement engine."""
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
    """Return the hold of a slot; for a job of whole nodes the amounts follow from the node.

    A count without places becomes the first places of the node: if others hold them, the ledger looks for idle ones.
    """
    shape = gang.groups[slot.group].shape
    devices = slot.kept_at or tuple(range(slot.gpus))
    place = Place(slot.group, slot.replica, slot.node, devices, slot.gpu_milli)
    return Hold(0, 0, place) if shape.full_node else Hold(shape.cpu_milli, shape.memory_mib, place)


def slot_of(place: Place, *, by_count: bool) -> Slot:
    """Return a hold's place as a slot of facts. `by_count`: the kubelet picks the devices of this node."""
    group, replica, node, devices = place.group, place.replica, place.node, place.devices
    if by_count and devices:
        milli, count = place.gpu_milli, len(devices)
        return Slot(group=group, replica=replica, node=node, gpu_milli=milli, gpus=count, places=devices)
    return Slot(group=group, replica=replica, node=node, devices=devices, gpu_milli=place.gpu_milli)


def same_places(holds: Sequence[Hold], slots: Sequence[Slot]) -> bool:
    """Return whether holds are exactly these slots, in their order."""
    return len(holds) == len(slots) and all(_is_at(hold.slot, slot) for hold, slot in zip(holds, slots, strict=True))


def _is_at(place: Place, slot: Slot) -> bool:
    return place.node == slot.node and place.devices == slot.kept_at and place.gpu_milli == slot.gpu_milli


def _wish(topology: Topology | None) -> TopologyRequest | None:
    return TopologyRequest(topology.level, topology.required) if topology else None
