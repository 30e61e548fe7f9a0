"""Facts of what GPUs did for jobs, told by the telemetry service: seldom, and of jobs that were measured at all."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, Label, Payload, RecordedInstant, Wire
from muster.schemas.record import StateRecord
from muster.schemas.telemetry import Measured

USED_DEVICES_MAX = 16
ACCOUNTS_A_DAY_MAX = 500


@dataclass(slots=True)
class Use(StateRecord):
    """What GPUs did, summed up over devices and time: the record from which telemetry goes on to sum up."""

    measured_s: Measured = 0.0
    """GPU-seconds for which there is a reading."""
    busy_s: Measured = 0.0
    """Of these, weighed by DCGM's utilisation, which says no more than that something ran."""
    idle_s: Measured = 0.0
    """Of these, those in which nothing ran."""
    sm_active_s: Measured = 0.0
    """Weighed by the activity."""
    sm_measured_s: Measured = 0.0
    """For which there is one: not every exporter shows it."""
    tensor_active_s: Measured = 0.0
    tensor_measured_s: Measured = 0.0
    dram_active_s: Measured = 0.0
    dram_measured_s: Measured = 0.0
    energy_j: Measured = 0.0
    """From the energy counters, where there are none from the power."""
    memory_mib_max: int = 0
    """Of the device that had most."""
    memory_total_mib: int = 0
    """Of that device."""
    power_w_max: Measured = 0.0
    """Of the device that had most."""
    temperature_c_max: Measured = 0.0
    """Of the device that had most."""


class DeviceUse(Wire):
    """What one GPU did for one job. index: its place on the node."""

    node: Label
    index: int
    uuid: str = ""
    use: Use = Use()


class JobUseReported(Payload):
    """`use-reported` of a job: all that its GPUs did for it until now, over all of its runs; the newest one counts.

    since, until: of the first reading and of the newest. gpus: how many different devices it was measured on. devices:
    the least busy of them. is_last: the job is over, and nothing more will come. team, queue, user, name: whose it is.
    """

    use: Use
    since: InstantNs = 0
    until: InstantNs = 0
    gpus: int = 0
    devices: Annotated[tuple[DeviceUse, ...], Field(max_length=USED_DEVICES_MAX)] = ()
    is_last: bool = False
    team: str = ""
    queue: str = ""
    user: str = ""
    name: str = ""


@dataclass(slots=True)
class JobUseState(StateRecord):
    """`state-recorded` of a job, by telemetry: what it last said of its use."""

    reported: JobUseReported | None = None
    reported_at: RecordedInstant = NEVER
    ended_at: RecordedInstant = NEVER
    """0 while it is not over."""
    fact: str = ""
    """Id of the newest fact that moved it."""
    trace: str = ""


class TeamUse(Wire):
    """What one team's jobs used in one queue. Fields: see `Use`."""

    team: str
    queue: str = ""
    energy_j: Measured = 0.0
    measured_s: Measured = 0.0
    idle_s: Measured = 0.0


class DayUseState(Payload):
    """`state-recorded` of a day's usage, by telemetry. day: number since the Unix epoch, UTC."""

    day: Annotated[int, Field(ge=0)]
    teams: Annotated[tuple[TeamUse, ...], Field(max_length=ACCOUNTS_A_DAY_MAX)] = ()
