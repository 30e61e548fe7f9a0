"""Facts of advance reservations: nodes or GPUs kept for somebody, or for maintenance, from a moment on."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from muster.schemas.base import InstantNs, JobId, Label, Name, Payload, Text, Wire
from muster.schemas.job import RUN_TIME_S_MAX, Slot

NODES_MAX = 4_096


class Repeat(StrEnum):
    """How often a reservation comes back."""

    ONCE = "once"
    WEEKLY = "weekly"


class ReservationSpec(Wire):
    """What is kept. Either the named `nodes`, or `gpus` GPUs of `gpu_model` ("": any) wherever they come free.

    For the jobs of `queue` and of those below it, for the one job `job_id`, or with neither for nobody: maintenance.
    starts_at: first time; duration_s: each time; repeat: weekly until it is ended.
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
            raise ValueError("name the `nodes` to keep, or how many `gpus`, one of both")
        if self.queue is not None and self.job_id is not None:
            raise ValueError("keep it for a `queue` or for one `job_id`, not for both")
        if self.repeat is Repeat.WEEKLY and self.duration_s >= 7 * 86_400:
            raise ValueError("duration_s: a weekly reservation must end before it begins again")
        return self


class ReserveRequested(Payload):
    """`reserve-requested`, `reserve-forwarded`: somebody wants this kept; one of the same name is replaced."""

    spec: ReservationSpec
    principal: str


class ReserveEndRequested(Payload):
    """`end-requested`, `end-forwarded`: the reservation is no longer wanted."""

    principal: str
    reason: Text = ""


class Booked(Payload):
    """`booked`: it is kept from here on; said again for each repeat, and when other GPUs had to be chosen.

    starts_at: this time; 0 in old facts: as the spec says. slots: the GPUs chosen where the spec names no nodes, one
    slot per node.
    """

    spec: ReservationSpec
    starts_at: InstantNs = 0
    slots: tuple[Slot, ...] = ()


class BookingRefused(Payload):
    """`booking-refused`: why it cannot be kept, and which field says so."""

    field: str
    reason: Text


class BookingEnded(Payload):
    """`ended`: the reservation is over, or was ended."""

    reason: Text = ""


class ReservationWish(Wire):
    """A request that was not yet answered or forwarded. fact: which fact asked; spec None: the wish is its end."""

    fact: str
    name: Name
    spec: ReservationSpec | None = None
    principal: str = ""
    reason: Text = ""
    trace: str = ""


class ReservationState(Payload):
    """`state-recorded` of a reservation. spec: None while it was only asked for. wishes: not yet answered.

    starts_at, slots: as the newest `booked` said, by the fact last_fact; the federation does not record them.
    """

    spec: ReservationSpec | None = None
    wishes: tuple[ReservationWish, ...] = ()
    starts_at: InstantNs = 0
    slots: tuple[Slot, ...] = ()
    last_fact: str = ""
