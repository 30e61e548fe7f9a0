"""Change a node's description when devices are plugged and unplugged.

A device keeps its index: a removed one leaves a gap, gaps at the end are cut off, and a new device takes the lowest
gap. A node has GPUs of one model at a time.
"""

from muster.schemas.devices import GPU
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, MEMORY_DEVICES_MAX, NodeJoined


def is_shown(node: NodeJoined, uuid: str) -> bool:
    """Return whether the node shows this device."""
    return index_of(node, uuid) is not None or uuid in node.memory_uuids


def index_of(node: NodeJoined, uuid: str) -> int | None:
    """Return the index of a GPU on the node; None if it is absent."""
    if uuid not in node.gpu_uuids:
        return None
    index = node.gpu_uuids.index(uuid)
    return None if index in node.absent else index


def with_device(node: NodeJoined, uuid: str, *, type: str, model: str, memory_mib: int = 0) -> NodeJoined:  # noqa: A002 - the field's word
    """Return the node with one more device; unchanged if it cannot show it (another model, too many, shown already)."""
    if is_shown(node, uuid):
        return node
    if type != GPU:
        if not memory_mib or len(node.memory_uuids) >= MEMORY_DEVICES_MAX:
            return node
        more = {"memory_mib": node.memory_mib + memory_mib, "memory_uuids": (*node.memory_uuids, uuid)}
        return node.model_copy(update=more)
    if node.gpu_model not in ("", model):
        return node
    if node.absent:
        place, absent = min(node.absent), tuple(sorted(set(node.absent) - {min(node.absent)}))
        uuids = (*node.gpu_uuids[:place], uuid, *node.gpu_uuids[place + 1 :])
    elif len(node.gpu_uuids) < GPUS_PER_NODE_MAX:
        uuids, absent = (*node.gpu_uuids, uuid), ()
    else:
        return node
    return node.model_copy(update={"gpu_uuids": uuids, "absent": absent, "gpu_model": model})


def without_device(node: NodeJoined, uuid: str, *, memory_mib: int = 0) -> NodeJoined:
    """Return the node with one device less; unchanged if it does not show it."""
    if uuid in node.memory_uuids:
        left = tuple(one for one in node.memory_uuids if one != uuid)
        return node.model_copy(update={"memory_mib": max(0, node.memory_mib - memory_mib), "memory_uuids": left})
    place = index_of(node, uuid)
    if place is None:
        return node
    present = {index: one for index, one in node.present.items() if index != place}
    size = max(present, default=-1) + 1
    uuids = tuple(present.get(index, f"empty-{index}") for index in range(size))
    absent = tuple(index for index in range(size) if index not in present)
    model = node.gpu_model if present else ""
    return node.model_copy(update={"gpu_uuids": uuids, "absent": absent, "gpu_model": model})
