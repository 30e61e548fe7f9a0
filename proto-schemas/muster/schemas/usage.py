"""GPU usage of jobs and teams: questions to the telemetry service, and its answers.

`GET /v1/jobs/{id}/stats`, `/v1/usage/top`, `/v1/usage/idle`, `/v1/usage/energy`; `muster stats`, `muster top`.
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Text, Wire
from muster.schemas.facts.telemetry import DeviceUse, Use
from muster.schemas.telemetry import Measured
from muster.schemas.usage_words import DAYS_MAX, ROWS_MAX, EnergyBy, TopBy, TopOrder

COLUMNS_MAX = 120
DEVICES_MAX = 1_024


class AskJobUse(Wire):
    """Question: the GPU usage of a job."""

    job_id: str


class UseColumn(Wire):
    """A period of a job, over all of its GPUs. at: its start. gpus: measured at a time, on average.

    busy_pct, sm_active_pct, tensor_active_pct: means; None: not measured. power_w: of all together. memory_mib_max: of
    one GPU.
    """

    at: InstantNs
    gpus: Measured = 0.0
    busy_pct: Measured = 0.0
    sm_active_pct: Measured | None = None
    tensor_active_pct: Measured | None = None
    power_w: Measured = 0.0
    memory_mib_max: int = 0


class JobUse(Wire):
    """GPU usage of a job over all of its attempts, and over time as far as the service has observed it.

    is_known: it was measured at all. is_over: no further readings follow. devices: the least busy first; only some,
    if there are many or the job is over. gpus: number of different measured GPUs. advice: for the owner.
    """

    job_id: str
    is_known: bool = True
    is_over: bool = False
    team: str = ""
    queue: str = ""
    user: str = ""
    name: str = ""
    since: InstantNs = 0
    until: InstantNs = 0
    gpus: int = 0
    use: Use = Use()
    energy_kwh: Measured = 0.0
    gpu_hours: Measured = 0.0
    idle_gpu_hours: Measured = 0.0
    busy_pct: Measured = 0.0
    sm_active_pct: Measured | None = None
    tensor_active_pct: Measured | None = None
    dram_active_pct: Measured | None = None
    devices: Annotated[tuple[DeviceUse, ...], Field(max_length=DEVICES_MAX)] = ()
    column_s: Measured = 0.0
    columns: Annotated[tuple[UseColumn, ...], Field(max_length=COLUMNS_MAX)] = ()
    advice: tuple[Text, ...] = ()


class AskTop(Wire):
    """Question: the current GPU usage. team: only this one."""

    by: TopBy = TopBy.JOB
    order: TopOrder = TopOrder.GPUS
    team: str = ""
    limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 20


class TopRow(Wire):
    """One job, team, queue, user or model, by the last reading of its GPUs. gpus: allocated and measured. idle: of
    these. name, team, queue, user: of a job; for other rows, `key` has their common value."""

    key: str
    name: str = ""
    team: str = ""
    queue: str = ""
    user: str = ""
    jobs: int = 1
    gpus: int = 0
    idle: int = 0
    busy_pct: Measured = 0.0
    sm_active_pct: Measured | None = None
    tensor_active_pct: Measured | None = None
    memory_pct: Measured = 0.0
    power_w: Measured = 0.0


class ExporterCount(Wire):
    """Number of nodes whose exporter is in this state. nodes: names of some of them, unless the state is `ok`."""

    state: str
    count: int
    nodes: tuple[str, ...] = ()


class Top(Wire):
    """The current GPU usage. rows: of `total`, as many as requested. at: time of the answer.

    gpus_expected, gpus_seen: by the log, and by the exporters. held, idle_held: of the seen GPUs.
    """

    at: InstantNs = 0
    rows: Annotated[tuple[TopRow, ...], Field(max_length=ROWS_MAX)] = ()
    total: int = 0
    gpus_expected: int = 0
    gpus_seen: int = 0
    held: int = 0
    idle_held: int = 0
    power_w: Measured = 0.0
    exporters: tuple[ExporterCount, ...] = ()


class AskIdle(Wire):
    """Question: allocated but idle GPUs. team: only this one."""

    team: str = ""
    limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 100


class IdleGpu(Wire):
    """A GPU that a job has and does not use. since: time of the first idle reading."""

    node: str
    index: int
    uuid: str = ""
    model: str = ""
    job_id: str
    name: str = ""
    team: str = ""
    queue: str = ""
    user: str = ""
    since: InstantNs = 0
    idle_s: Measured = 0.0


class IdleTeam(Wire):
    """Allocated but idle GPUs of a team. idle_s: of all those GPUs together, until now."""

    team: str
    held: int = 0
    idle: int = 0
    jobs: int = 0
    idle_s: Measured = 0.0


class Idle(Wire):
    """Allocated GPUs that were idle for at least `after_s`. teams: all; gpus: the longest idle first, of `total`."""

    at: InstantNs = 0
    after_s: Measured = 0.0
    teams: tuple[IdleTeam, ...] = ()
    gpus: Annotated[tuple[IdleGpu, ...], Field(max_length=ROWS_MAX)] = ()
    total: int = 0


class AskEnergy(Wire):
    """Question: usage of teams over the last days. days: whole days in UTC, including today. team: only this one."""

    by: EnergyBy = EnergyBy.TEAM
    days: Annotated[int, Field(ge=1, le=DAYS_MAX)] = 30
    team: str = ""
    limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 100


class EnergyRow(Wire):
    """One team or queue. gpu_hours: measured; idle_gpu_hours: of these, idle."""

    key: str
    energy_kwh: Measured = 0.0
    gpu_hours: Measured = 0.0
    idle_gpu_hours: Measured = 0.0


class Energy(Wire):
    """Usage since the start of the first day. rows: the greatest first, of `total`. energy_kwh: of all.

    Usage of a running job is reported every `telemetry.report_s`, and counts on the day of the report.
    """

    at: InstantNs = 0
    since: InstantNs = 0
    rows: Annotated[tuple[EnergyRow, ...], Field(max_length=ROWS_MAX)] = ()
    total: int = 0
    energy_kwh: Measured = 0.0
