"""Settings of what is simulated: pods, nodes and fabrics."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

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


class FabricBehaviour(_Section):
    """How a simulated fabric answers calls. Every draw is a function of the seed and of what it is for."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    seed: int = 1
    """Of all draws."""
    switch_median_s: Annotated[float, Field(ge=0)] = 10.0
    """Median of the log-normal time of one attachment or detachment."""
    switch_sigma: Annotated[float, Field(ge=0)] = 0.4
    """Deviation of the logarithm of that time."""
    refuse_share: Share = 0.0
    """Calls that are answered 5xx and do nothing."""
    drop_share: Share = 0.0
    """Calls that do their work and are never answered."""
    half_share: Share = 0.0
    """Calls that end half done."""
    nonsense_share: Share = 0.0
    """Calls whose answer cannot be understood."""
    twice_share: Share = 0.0
    """Delivered requests that are carried out twice."""
    limit: Annotated[int, Field(ge=1)] = 64
    """Operations at a time."""

    @model_validator(mode="after")
    def _at_most_every_call(self) -> Self:
        names = [name for name in FabricBehaviour.model_fields if name.endswith("_share")]
        total = sum(getattr(self, name) for name in names)
        if total > 1.0 + 1e-9:
            raise ValueError(f"{', '.join(names)}: together {total:g}, more than every call")
        return self


class SimulatedFabricSettings(FabricBehaviour):
    """A simulated fabric manager (`muster run fabric-simulator`)."""

    pool: dict[str, Annotated[int, Field(ge=0, le=100_000)]] = {}
    """GPUs that are in the pool at the very start, by model."""
    memory_pool: dict[str, Annotated[int, Field(ge=0, le=100_000)]] = {}
    """Memory devices that are in the pool at the very start, by model."""
    memory_mib: Annotated[int, Field(ge=1)] = 131_072
    """Of one memory device."""
    token_s: Annotated[float, Field(gt=0)] = 300.0
    """How long a token of the manager lives."""
