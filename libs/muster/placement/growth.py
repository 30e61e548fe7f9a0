"""Nodes that get more devices temporarily or in simulation: what would fit if they had them.

Devices are added after the present ones, idle and usable, and removed from there again; nothing else of the node
changes. Only for nodes without device domains, because the domain of a new device is unknown.
"""

from dataclasses import replace

from muster.placement.fleet import Fleet
from muster.placement.ledger import _Sums
from muster.placement.shapes import HoldError


def grow(fleet: Fleet, name: str, count: int, *, model: str) -> None:
    """Add `count` idle devices of a model after the devices of the node.

    Raise HoldError if the node is unknown, has devices of another model, or declares domains of its devices.
    """
    node = fleet.ledger.node(name)
    shape = node.shape
    if node.layout is not None:
        raise HoldError(f"node {name} declares domains of its devices: it cannot get more")
    if shape.gpu_model != model and len(node.broken) < shape.device_count:
        raise HoldError(f"node {name} has GPUs of model {shape.gpu_model}: it cannot get {model}")
    _reshape(fleet, name, shape.gpu_count + count, model)


def shrink(fleet: Fleet, name: str, count: int, *, model: str) -> None:
    """Remove the last `count` devices. `model` is that of the remaining devices, as before `grow`.

    Raise HoldError if one of them is held.
    """
    node = fleet.ledger.node(name)
    if count > len(node.idle) or any(idle != node.shape.device_milli for idle in node.idle[len(node.idle) - count :]):
        raise HoldError(f"node {name} does not have {count} idle devices at its end")
    _reshape(fleet, name, node.shape.gpu_count - count, model)


def _reshape(fleet: Fleet, name: str, count: int, model: str) -> None:
    """Update the ledger of a node as if it had been added with this many devices."""
    ledger = fleet.ledger
    node = ledger.nodes[name]
    usable, before = node.usable, node.shape
    if model != before.gpu_model:  # remove its idle devices from the sums of the old model first
        node.usable = False
        ledger._file(node)  # noqa: SLF001 - this module does a part of the ledger's own work
    sums = ledger._sums  # noqa: SLF001
    added = count - before.gpu_count
    node.shape = replace(before, gpu_count=count, gpu_model=model)
    sums[before.gpu_model].total -= before.device_milli * before.device_count
    sums.setdefault(model, _Sums()).total += node.shape.device_milli * node.shape.device_count
    node.idle = node.idle + [node.shape.device_milli] * added if added > 0 else node.idle[:count]
    node.usable = usable
    ledger._file(node)  # noqa: SLF001
