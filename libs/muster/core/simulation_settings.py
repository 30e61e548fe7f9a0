"""Settings of what is simulated: pods, nodes and fabrics."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
"""Of all, from 0 to 1."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SimulationSettings(_Section):
    """How simulated pods and nodes behave. Every draw is a function of the seed and of what it is for.

    seed: of all draws. start_s: median of the time from placed to started. run_s: median run time where a job says
    nothing (label `sim.muster.dev/run-s`, exit code by `sim.muster.dev/exit-code`). run_sigma: of the log-normal run
    times around it. job_failure_share: of jobs without such a label. node_failures_per_day: per node. node_repair_s:
    until a lost node is back. provision_failure_share: of nodes that the scaler adds. telemetry_interval_s:
    between two readings that a node's exporter makes of its GPUs; 0: there are no exporters. output_interval_s: between
    two lines that a job prints; 0: none.
    """

    seed: int = 1
    start_s: Annotated[float, Field(ge=0)] = 0.5
    run_s: Annotated[float, Field(gt=0)] = 45.0
    run_sigma: Annotated[float, Field(ge=0)] = 0.5
    job_failure_share: Share = 0.02
    node_failures_per_day: Annotated[float, Field(ge=0)] = 0.0
    node_repair_s: Annotated[float, Field(gt=0)] = 120.0
    provision_failure_share: Share = 0.0
    telemetry_interval_s: Annotated[float, Field(ge=0)] = 10.0
    output_interval_s: Annotated[float, Field(ge=0)] = 10.0
