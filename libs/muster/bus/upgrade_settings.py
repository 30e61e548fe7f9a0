"""Settings of the upgrader: the limits of every campaign."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class UpgradeSettings(BaseModel):
    """campaigns_max: that go on at the same time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    campaigns_max: Annotated[int, Field(ge=1, le=64)] = 4
