"""Questions to a core and their answers, over `query.<cluster>.<service>.<name>`. They are never facts."""

from muster.schemas.base import InstantNs, JobId, Wire
from muster.schemas.devices import ComposabilitySpec, DeviceView, FabricView, RequestView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.facts.scale import Alternative
from muster.schemas.job import JobSpec
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView

QUEUES_MAX = 256  # changes in one request; each is checked with those before it


class AskJob(Wire):
    """To the scheduler (`job`, `why`): which job."""

    job_id: JobId


class JobAnswer(Wire):
    """The job as the scheduler folded it; None if it never heard of it."""

    job: JobView | None = None


class WhyAnswer(Wire):
    """Why a job is where it is.

    position: place among the waiting of its queue, from 1, 0 if it does not wait or is held.
    reason: fixed vocabulary; detail: with numbers; cure: what would make it run.
    expected_start_at: no later than this, as far as is known now, 0 if nothing is; expected_basis: what that rests on.
    """

    job: JobView | None = None
    position: int = 0
    waiting: int = 0
    reason: str = ""
    detail: str = ""
    cure: str = ""
    expected_start_at: InstantNs = 0
    expected_basis: str = ""


class AskDryRun(Wire):
    """To the scheduler (`dry-run`): what would happen to this job if it came now?"""

    spec: JobSpec


class DryRunAnswer(Wire):
    """refused: it can never run, `field` says why. Else placed now on `nodes`, or waiting for `reason`.

    preempts: jobs that would be stopped for it. expected_*: as in `WhyAnswer`.
    """

    refused: bool = False
    field: str = ""
    reason: str = ""
    detail: str = ""
    placed: bool = False
    nodes: tuple[str, ...] = ()
    position: int = 0
    cure: str = ""
    preempts: tuple[str, ...] = ()
    expected_start_at: InstantNs = 0
    expected_basis: str = ""


class AskQueueChange(Wire):
    """To the scheduler (`queue-check`): may the queue be so? accepted: changes to be thought of as made before."""

    spec: QueueSpec
    accepted: tuple[QueueSpec, ...] = ()


class QueueCheckAnswer(Wire):
    """field: empty if it may."""

    field: str = ""
    reason: str = ""


class AskFleet(Wire):
    """To the scheduler (`queues`, `nodes`): all of them.

    only: one alone, a request by its name or a device by its uuid, where the answer says so; "" for all.
    """

    only: str = ""


class QueuesAnswer(Wire):
    """All queues."""

    queues: tuple[QueueView, ...] = ()


class ReservationsAnswer(Wire):
    """To `reservations` (asked with `AskFleet`): all advance reservations that are booked."""

    reservations: tuple[ReservationView, ...] = ()


class AskReservation(Wire):
    """To the scheduler (`reservation-check`, answered with `QueueCheckAnswer`): may this be kept?"""

    spec: ReservationSpec


class NodesAnswer(Wire):
    """All nodes."""

    nodes: tuple[NodeView, ...] = ()


class DevicesAnswer(Wire):
    """To the composer (`devices`, asked with `AskFleet`): attached devices and those on their way, and the fabrics.

    With `only`, the device of that uuid, if it is attached; no fabrics.
    """

    devices: tuple[DeviceView, ...] = ()
    fabrics: tuple[FabricView, ...] = ()


class RequestsAnswer(Wire):
    """To the composer (`requests`, asked with `AskFleet`): ComposabilityRequests, newest first, ended ones too.

    With `only`, the one of that name, if there is one.
    """

    requests: tuple[RequestView, ...] = ()


class AskCompose(Wire):
    """To the composer (`compose-check`, answered with `DeviceCheckAnswer`): may this be?"""

    name: str
    spec: ComposabilitySpec
    may_force: bool = False


class AskDetach(Wire):
    """To the composer (`detach-check`, answered with `DeviceCheckAnswer`): may this device, or request, go?"""

    device_uuid: str = ""
    request: str = ""
    force: bool = False
    may_force: bool = False


class DeviceCheckAnswer(Wire):
    """field: empty if it may. holder: who stands in the way, if somebody does."""

    field: str = ""
    reason: str = ""
    holder: str = ""
    unknown: bool = False


class ScaleChoiceView(Wire):
    """One choice of the scaler, with what else was simulated. outcome: "", done, failed."""

    id: str
    cluster: str = ""
    name: str
    case: int
    group: str = ""
    node: str = ""
    device_model: str = ""
    count: int = 0
    jobs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    reason: str = ""
    alternatives: tuple[Alternative, ...] = ()
    watts: float = 0.0
    ready_s: float = 0.0
    at: InstantNs = 0
    ended_at: InstantNs = 0
    outcome: str = ""
    detail: str = ""


class ScaleAnswer(Wire):
    """To the scaler (`choices`, asked with `AskFleet`): its newest choices, newest first."""

    choices: tuple[ScaleChoiceView, ...] = ()
