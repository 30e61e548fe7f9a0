"""Questions to a core and their answers, over `query.<cluster>.<service>.<name>`. They are not facts."""

from muster.schemas.base import InstantNs, JobId, Wire
from muster.schemas.devices import ComposabilitySpec, DeviceView, FabricView, RequestView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.facts.scale import Alternative
from muster.schemas.job import JobSpec
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView

QUEUES_MAX = 256  # changes in one request; each is checked with all before it


class AskJob(Wire):
    """Question to the scheduler (`job`, `why`): the job."""

    job_id: JobId


class JobAnswer(Wire):
    """The job as the scheduler folded it; None for an unknown job."""

    job: JobView | None = None


class WhyAnswer(Wire):
    """Why a job is in its present state.

    position: in its queue, from 1; 0 if it is not queued or is held. reason: fixed vocabulary; detail: with
    numbers; cure: what would make it run. expected_start_at: latest start as far as known, 0 if unknown;
    expected_basis: basis of the estimate.
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
    """Question to the scheduler (`dry-run`): what would happen to this job if it were submitted now."""

    spec: JobSpec


class DryRunAnswer(Wire):
    """Answer of `dry-run`. refused: it can never run, because of `field`; else placed now on `nodes`, or waiting.

    reason: why it waits. preempts: preemption targets. expected_*: as in `WhyAnswer`.
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
    """Question to the scheduler (`queue-check`): whether the queue is accepted. accepted: changes to assume as made."""

    spec: QueueSpec
    accepted: tuple[QueueSpec, ...] = ()


class QueueCheckAnswer(Wire):
    """Answer of `queue-check`. field: empty if the change is accepted."""

    field: str = ""
    reason: str = ""


class AskFleet(Wire):
    """Question to the scheduler (`queues`, `nodes`): all of them.

    only: one request by its name or one device by its uuid, if the answer supports it; "" for all.
    """

    only: str = ""


class QueuesAnswer(Wire):
    """All queues."""

    queues: tuple[QueueView, ...] = ()


class ReservationsAnswer(Wire):
    """Answer of `reservations` (asked with `AskFleet`): all booked advance reservations."""

    reservations: tuple[ReservationView, ...] = ()


class AskReservation(Wire):
    """Question to the scheduler (`reservation-check`, answered with `QueueCheckAnswer`): whether this can be booked."""

    spec: ReservationSpec


class NodesAnswer(Wire):
    """All nodes."""

    nodes: tuple[NodeView, ...] = ()


class DevicesAnswer(Wire):
    """Answer of the composer (`devices`, asked with `AskFleet`): attached and moving devices, and the fabrics.

    With `only`, the device of that uuid, if it is attached; no fabrics.
    """

    devices: tuple[DeviceView, ...] = ()
    fabrics: tuple[FabricView, ...] = ()


class RequestsAnswer(Wire):
    """Answer of the composer (`requests`, asked with `AskFleet`): ComposabilityRequests, newest first, also ended ones.

    With `only`, the one of that name, if it exists.
    """

    requests: tuple[RequestView, ...] = ()


class AskCompose(Wire):
    """Question to the composer (`compose-check`, answered with `DeviceCheckAnswer`): whether this is accepted."""

    name: str
    spec: ComposabilitySpec
    may_force: bool = False


class AskDetach(Wire):
    """Question to the composer (`detach-check`, answered with `DeviceCheckAnswer`): whether it may be detached."""

    device_uuid: str = ""
    request: str = ""
    force: bool = False
    may_force: bool = False


class DeviceCheckAnswer(Wire):
    """Answer of the checks. field: empty if accepted. holder: the job or request in the way, if any."""

    field: str = ""
    reason: str = ""
    holder: str = ""
    unknown: bool = False


class ScaleChoiceView(Wire):
    """One decision of the scaler, with the simulated alternatives. outcome: "", done, failed."""

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
    """Answer of the scaler (`choices`, asked with `AskFleet`): its newest decisions, newest first."""

    choices: tuple[ScaleChoiceView, ...] = ()
