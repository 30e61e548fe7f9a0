"""Sections of the settings that cores take as they are."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ComposerSettings(BaseModel):
    """Bounds of attaching and detaching.

    attach_s_max, detach_s_max: deadline of one device, all its calls together. visible_s_max: from attached to seen on
    its node. withhold_s_max: how long a device may take to become free before its removal is given up. attempts_max:
    calls for one device and direction. backoff_s: after the first failure; it doubles up to backoff_s_max.
    backoff_s_max: longest wait before the next attempt. breaker_failures: so many in a row, then the fabric is left
    alone. breaker_s: for so long at first. survey_s: between two looks at a fabric's inventory. orphan_s: how long a
    device nobody asked for is watched before it is returned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attach_s_max: Annotated[float, Field(gt=0)] = 600.0
    detach_s_max: Annotated[float, Field(gt=0)] = 600.0
    visible_s_max: Annotated[float, Field(gt=0)] = 300.0
    withhold_s_max: Annotated[float, Field(gt=0)] = 600.0
    attempts_max: Annotated[int, Field(ge=1, le=100)] = 5
    backoff_s: Annotated[float, Field(gt=0)] = 2.0
    backoff_s_max: Annotated[float, Field(gt=0)] = 60.0
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    breaker_s: Annotated[float, Field(gt=0)] = 30.0
    survey_s: Annotated[float, Field(gt=0)] = 30.0
    orphan_s: Annotated[float, Field(ge=0)] = 600.0
