"""Everything that can be set, in one typed place; read from `<state-dir>/settings.json` and `MUSTER_*` variables."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.schemas.base import Name


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FleetSettings(_Section):
    """The simulated cluster's nodes: a regular fleet, or exactly those of an openb node list (`csv`).

    nvlink_size: nodes of a rack that share an NVLink domain; 0 declares no such level.
    """

    nodes: Annotated[int, Field(ge=0, le=100_000)] = 64
    gpus_per_node: Annotated[int, Field(ge=0, le=64)] = 8
    rack_size: Annotated[int, Field(ge=1)] = 8
    racks_per_block: Annotated[int, Field(ge=1)] = 8
    nvlink_size: Annotated[int, Field(ge=0)] = 0
    gpu_model: str = "H100"
    cpu_milli: Annotated[int, Field(ge=1)] = 128_000
    memory_mib: Annotated[int, Field(ge=1)] = 1_048_576
    csv: Path | None = None

    @model_validator(mode="after")
    def _nvlink_domains_lie_within_racks(self) -> Self:
        if self.nvlink_size and self.rack_size % self.nvlink_size:
            raise ValueError(
                f"nvlink_size {self.nvlink_size} does not divide rack_size {self.rack_size}: a domain lies in one rack"
            )
        return self


class SimulationSettings(_Section):
    """How simulated pods and nodes behave. Every draw is a function of the seed and of what it is for.

    start_s: median of the time from placed to started. run_s: median run time where a job says nothing
    (label `sim.muster.dev/run-s`, exit code by `sim.muster.dev/exit-code`). job_failure_share: of jobs without such
    a label. node_failures_per_day: per node.
    """

    seed: int = 1
    start_s: Annotated[float, Field(ge=0)] = 0.5
    run_s: Annotated[float, Field(gt=0)] = 45.0
    run_sigma: Annotated[float, Field(ge=0)] = 0.5
    job_failure_share: Annotated[float, Field(ge=0, le=1)] = 0.02
    node_failures_per_day: Annotated[float, Field(ge=0)] = 0.0
    node_repair_s: Annotated[float, Field(gt=0)] = 120.0
    telemetry_interval_s: Annotated[float, Field(ge=0)] = 10.0
    output_interval_s: Annotated[float, Field(ge=0)] = 10.0


class SchedulerSettings(_Section):
    """The scheduler's limits. decide_s: a decision that takes longer, of any service, is counted as over its time."""

    decide_s: Annotated[float, Field(gt=0)] = 0.05
    unschedulable_interval_s: Annotated[float, Field(ge=0)] = 5.0
    checkpoint_every_facts: Annotated[int, Field(ge=1)] = 100_000


class BusSettings(_Section):
    """Limits of the log and of the shell."""

    lease_ttl_s: Annotated[float, Field(ge=0.5)] = 3.0
    log_bytes_max: Annotated[int, Field(ge=1024 * 1024)] = 8 * 1024**3
    fed_bytes_max: Annotated[int, Field(ge=64 * 1024)] = 4 * 1024**3
    trim_keep_s: Annotated[float, Field(ge=0)] = 86_400.0
    replicas: Annotated[int, Field(ge=1, le=5)] = 1


class Settings(_Section):
    """One stack, or one process of it. credentials_dir: one `<user>.creds` per NATS user that this process may use."""

    state_dir: Path
    cluster: Name = "local"
    nats_url: str = "nats://127.0.0.1:4222"
    redis_url: str = "redis://127.0.0.1:6379/0"
    credentials_dir: Path
    http_host: str = "127.0.0.1"
    http_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    fleet: FleetSettings = FleetSettings()
    simulation: SimulationSettings = SimulationSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    bus: BusSettings = BusSettings()
