"""What both Fsas managers (FM and CM) have in common: the form of a device's condition and of its health."""

from collections.abc import Iterable

from muster.fabric import bounds
from muster.fabric.driver import FabricNonsenseError
from muster.fabric.http import Answer
from muster.fabric.inventory import DeviceHealth

_HEALTH = {"0": DeviceHealth.OK, "1": DeviceHealth.WARNING, "2": DeviceHealth.CRITICAL}


class Condition(Answer):
    """One of `condition` or `conditions`: column `model` (or another) compared with a value."""

    column: str = ""
    operator: str = "eq"
    value: str | int | float | None = None


def value_of(conditions: Iterable[Condition], column: str) -> str:
    """What a column must be equal to, "" if nothing says so."""
    for condition in conditions:
        if condition.column == column and condition.operator == "eq" and condition.value is not None:
            return str(condition.value)
    return ""


def memory_mib_of(conditions: Iterable[Condition]) -> int:
    """Of a memory device, from column `memory_mib`; 0 if it says none. Raises FabricNonsenseError for giant ones."""
    value = value_of(conditions, "memory_mib")
    if len(value) > len(str(bounds.MEMORY_MIB_MAX)):
        raise FabricNonsenseError(f"memory_mib: {len(value)} digits are more than any device has")
    return int(value) if value.isdecimal() else 0


def health_of(operation_status: str) -> DeviceHealth:
    """From the first character of res_op_status; one that is unknown is a warning."""
    return _HEALTH.get(operation_status[:1], DeviceHealth.WARNING) if operation_status else DeviceHealth.OK
