"""Names that the simulated cluster, the simulated fabric and the scaler agree on without asking each other. Pure.

Every id is a function of what it names: a simulated node that comes back brings the same devices.
"""

import hashlib


def node_name(group: str, index: int) -> str:
    """Name of the node at `index` (from 1) of a group."""
    return f"{group}-{index:04d}"


def machine_id(node: str) -> str:
    """What the fabric calls the machine under a node, in the form of a UUID."""
    return _uuid("machine", node)


def device_uuids(node: str, count: int) -> tuple[str, ...]:
    """Devices that a node was built with, or that stand on it when everything starts, in NVIDIA's form."""
    return tuple(f"GPU-{_uuid('device', node, str(index))}" for index in range(count))


def pool_device_uuid(fabric: str, model: str, index: int) -> str:
    """Device number `index` (from 0) of those that lie in the fabric's pool when everything starts."""
    return f"GPU-{_uuid('pool', fabric, model, str(index))}"


def fabric_device_id(device_uuid: str) -> str:
    """What the fabric calls a device (`res_uuid`)."""
    return _uuid("fabric-device", device_uuid)


def _uuid(*parts: str) -> str:
    digits = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
