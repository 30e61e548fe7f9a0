"""Settings of the upgrader: the limits of every campaign."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class UpgradeSettings(BaseModel):
    """campaigns_max: that go on at the same time. patience_s: a node that is not full of jobs is kept for its turn at
    most so long before. rack_level: the level of topology by which a campaign's limit per rack counts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    campaigns_max: Annotated[int, Field(ge=1, le=64)] = 4
    patience_s: Annotated[float, Field(ge=0)] = 4 * 3600.0
    rack_level: str = "rack"
