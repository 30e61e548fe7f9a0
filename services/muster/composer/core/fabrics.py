"""The port between the composer's fold and the fabrics, real or simulated.

Effects go in and observations come out, both as values. An effect is named by (order, attempt); its intent is a fact
(`attaching`, `detaching`) before it is carried out. An observation is returned until `acknowledge` says that the log
has it. A backend with I/O queues calls in `carry_out`, works the queue from a sink while its service leads, and drops
it in `start_term`: a begun call in the log that this process does not carry out is another leader's, with an unknown
outcome until its deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.core import Instant
from muster.fabric.driver import Inventory, MachineDevice
from muster.schemas.devices import GPU
from muster.schemas.facts.device import CallFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class _FabricCall:
    """One call to a fabric's manager for one device of a machine."""

    order: str
    """Id of the attachment."""
    attempt: int
    fabric: str
    machine: str
    type: str = GPU
    start_by: Instant
    """Latest time of its begin."""
    deadline_at: Instant
    """Time at which it is over, with or without an answer."""
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachCall(_FabricCall):
    """Attach one device of `model`."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachCall(_FabricCall):
    """Detach one device."""

    device_id: str


Call = AttachCall | DetachCall


@dataclass(frozen=True, slots=True)
class AttachDone:
    """The manager attached one of these: the core takes the first without an attachment."""

    order: str
    attempt: int
    candidates: tuple[MachineDevice, ...]
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DetachDone:
    """The manager detached the device, or it was not there."""

    order: str
    attempt: int
    was_gone: bool = False
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CallWentWrong:
    """The known effect of a failed call, and a message."""

    order: str
    attempt: int
    failure: CallFailure
    error: str = ""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The fabric's devices at a time not before `began_at`."""

    fabric: str
    began_at: Instant
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class SurveyWentWrong:
    """A survey of the fabric failed."""

    fabric: str
    began_at: Instant
    failure: CallFailure
    error: str = ""


Outcome = AttachDone | DetachDone | CallWentWrong
Look = Surveyed | SurveyWentWrong
Observation = Outcome | Look


class Fabrics(Protocol):
    """Makes calls. Methods are called from one thread, in the log's order, and never block."""

    def carry_out(self, call: Call) -> None:
        """Accept a call when its intent is folded; repeating it changes nothing."""
        ...

    def is_under_way(self, order: str, attempt: int) -> bool:
        """Return whether this process makes or will make this call, or has an outcome that is not acknowledged."""
        ...

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        """Request a survey that begins at `not_before` or later. It needs no intent and may be repeated."""
        ...

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Return all unacknowledged outcomes, and the newest survey of each fabric."""
        ...

    def acknowledge(self, order: str, attempt: int) -> None:
        """Drop the outcome of this call, which the log has, from any caller."""
        ...

    def next_change(self) -> Instant | None:
        """Return when `observe` could return more by time alone; None: never; 0 while an outcome waits."""
        ...
