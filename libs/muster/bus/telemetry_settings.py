"""Settings of the telemetry service: which exporters it asks, how often, and whose use a GPU's is."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class TelemetrySettings(BaseModel):
    """enabled: pages are scraped at all. interval_s: between two readings of a node. timeout_s: of one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    interval_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
