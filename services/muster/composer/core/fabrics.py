"""The port between the composer's fold and the fabrics, real or simulated.

As with the agent's cluster, effects go in and observations come out, both as values. An effect is named by (order,
attempt); its intent is a fact (`attaching`, `detaching`) before it is carried out. An observation stands until
`acknowledge` says that the log has it. A backend that does I/O queues calls in `carry_out`, works the queue from a sink
while its service leads, and drops what is queued in `start_term`: what the log says was begun and this instance does
not carry out was begun by another leader, and nobody knows its outcome before its deadline.
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
    """One call to a fabric's manager, about one device of a machine."""

    order: str
    """Id of the attachment."""
    attempt: int
    fabric: str
    machine: str
    type: str = GPU
    start_by: Instant
    """It is not begun later."""
    deadline_at: Instant
    """It is over then, with or without an answer."""
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachCall(_FabricCall):
    """Attach one device of `model`."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachCall(_FabricCall):
    """Take one device away."""

    device_id: str


Call = AttachCall | DetachCall


@dataclass(frozen=True, slots=True)
class AttachDone:
    """The manager attached one of these: the core takes the first that no other attachment has."""

    order: str
    attempt: int
    candidates: tuple[MachineDevice, ...]
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DetachDone:
    """The manager took it away, or it was not there any more."""

    order: str
    attempt: int
    was_gone: bool = False
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CallWentWrong:
    """What is known of the call's effect, and in words what happened."""

    order: str
    attempt: int
    failure: CallFailure
    error: str = ""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What the fabric held at a moment not before `began_at`."""

    fabric: str
    began_at: Instant
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class SurveyWentWrong:
    """The fabric could not be looked at."""

    fabric: str
    began_at: Instant
    failure: CallFailure
    error: str = ""


Outcome = AttachDone | DetachDone | CallWentWrong
Look = Surveyed | SurveyWentWrong
Observation = Outcome | Look


class Fabrics(Protocol):
    """Where calls are made. Methods are called from one thread, in the log's order, and never block."""

    def carry_out(self, call: Call) -> None:
        """Take on a call; again is no second time. Called when the intent is folded."""
        ...

    def is_under_way(self, order: str, attempt: int) -> bool:
        """Whether this instance makes this call, will make it, or has an outcome of it that is not acknowledged."""
        ...

    def ask_survey(self, fabric: str, not_before: Instant) -> None:
        """A look that begins at `not_before` or later is wanted. Harmless, so it needs no intent; may be repeated."""
        ...

    def observe(self, now: Instant) -> Sequence[Observation]:
        """All outcomes that are not acknowledged, and the newest look at each fabric; bounded by what is under way."""
        ...

    def acknowledge(self, order: str, attempt: int) -> None:
        """The log has the outcome of this call, whoever made it."""
        ...

    def next_change(self) -> Instant | None:
        """When `observe` could say something new by time alone; None: never; 0 while something waits to be told."""
        ...
