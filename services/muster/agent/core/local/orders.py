"""What the pure part wants done to processes: values, given out in order, each once."""

from dataclasses import dataclass

from muster.core import Instant
from muster.schemas.job import JobSpec, Slot

Key = tuple[str, int]
"""Job and attempt."""


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start the program of one slot. at: when it was wanted. resumed_s, device_uuids: told to the program."""

    key: Key
    slot: Slot
    spec: JobSpec
    at: Instant
    resumed_s: float = 0.0
    device_uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopProcess:
    """Tell the program of one slot to end, and end it `grace_s` later; at once without any."""

    key: Key
    slot: Slot
    at: Instant
    grace_s: float = 0.0


Order = StartProcess | StopProcess
