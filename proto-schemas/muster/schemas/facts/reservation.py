"""Facts of advance reservations: nodes or GPUs reserved for jobs, or for maintenance, from a given time."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from muster.schemas.base import InstantNs, JobId, Label, Name, Payload, Text, Wire
from muster.schemas.job import RUN_TIME_S_MAX, Slot

NODES_MAX = 4_096


class Repeat(StrEnum):
    """How often a reservation recurs."""

    ONCE = "once"
    WEEKLY = "weekly"


class ReservationSpec(Wire):
    """What is reserved: either the named `nodes`, or `gpus` GPUs of `gpu_model` ("": any) on any nodes.

    For the jobs of `queue` and its child queues, for the one job `job_id`, or with neither for maintenance. starts_at:
    first time; duration_s: of each time; repeat: weekly until it is ended.
    """

    name: Name
    nodes: Annotated[tuple[Label, ...], Field(max_length=NODES_MAX)] = ()
    gpus: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    gpu_model: str = ""
    queue: Name | None = None
    job_id: JobId | None = None
    starts_at: InstantNs
    duration_s: Annotated[float, Field(gt=0, le=RUN_TIME_S_MAX)]
    repeat: Repeat = Repeat.ONCE
    reason: Text = ""

    @model_validator(mode="after")
    def _says_what_and_for_whom(self) -> Self:
        if bool(self.nodes) == bool(self.gpus):
            raise ValueError("give either the `nodes` or the number of `gpus` to reserve")
        if self.queue is not None and self.job_id is not None:
            raise ValueError("reserve for a `queue` or for one `job_id`, not for both")
        if self.repeat is Repeat.WEEKLY and self.duration_s >= 7 * 86_400:
            raise ValueError("duration_s: a weekly reservation must end before it begins again")
        return self


class ReserveRequested(Payload):
    """`reserve-requested`, `reserve-forwarded`: a request for a reservation; it replaces one of the same name."""

    spec: ReservationSpec
    principal: str


class ReserveEndRequested(Payload):
    """`end-requested`, `end-forwarded`: the reservation is to end."""

    principal: str
    reason: Text = ""


class Booked(Payload):
    """`booked`: the reservation is booked; emitted again for each repeat, and when other GPUs had to be chosen.

    starts_at: of this time; 0 in old facts: as in the spec. slots: the chosen GPUs if the spec names no nodes, one
    slot per node.
    """

    spec: ReservationSpec
    starts_at: InstantNs = 0
    slots: tuple[Slot, ...] = ()


class BookingRefused(Payload):
    """`booking-refused`: why it cannot be booked, and the field that causes it."""

    field: str
    reason: Text


class BookingEnded(Payload):
    """`ended`: the reservation is over, or was ended."""

    reason: Text = ""


class PendingReservation(Wire):
    """A request without an answer, or not yet forwarded. fact: id of its fact; spec None: it requests the end."""

    fact: str
    name: Name
    spec: ReservationSpec | None = None
    principal: str = ""
    reason: Text = ""
    trace: str = ""


class ReservationState(Payload):
    """`state-recorded` of a reservation. spec: None while it is only requested. wishes: requests without an answer.

    starts_at, slots: of the newest `booked`, the fact last_fact; the federation does not record them.
    """

    spec: ReservationSpec | None = None
    wishes: tuple[PendingReservation, ...] = ()
    starts_at: InstantNs = 0
    slots: tuple[Slot, ...] = ()
    last_fact: str = ""
