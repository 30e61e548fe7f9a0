"""Settings of the federation: its clusters, where jobs go, and when a silent cluster is given up."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class FederationSettings(BaseModel):
    """lost_after_s: a cluster that is silent for so long is given up, and its jobs go elsewhere; 0: never."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lost_after_s: Annotated[float, Field(ge=0)] = 0.0
