"""Names that the simulated cluster, the simulated fabric and the scaler derive independently. Pure.

Every id is a function of the object's name: a simulated node that rejoins brings the same devices.
"""

import hashlib


def node_name(group: str, index: int) -> str:
    """Return the name of the node at `index` (from 1) of a group."""
    return f"{group}-{index:04d}"


def machine_id(node: str) -> str:
    """Return the fabric's id of the machine under a node, in the form of a UUID."""
    return _uuid("machine", node)


def device_uuids(node: str, count: int) -> tuple[str, ...]:
    """Return the devices that a node has when the simulation starts, in NVIDIA's form."""
    return tuple(f"GPU-{_uuid('device', node, str(index))}" for index in range(count))


def pool_device_uuid(fabric: str, model: str, index: int) -> str:
    """Return the device with number `index` (from 0) in the fabric's pool when the simulation starts."""
    return f"GPU-{_uuid('pool', fabric, model, str(index))}"


def fabric_device_id(device_uuid: str) -> str:
    """Return the fabric's id of a device (`res_uuid`)."""
    return _uuid("fabric-device", device_uuid)


def _uuid(*parts: str) -> str:
    digits = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
