"""Settings of checks on nodes: which suites there are, and which jobs are checked before their first step."""

from pydantic import BaseModel, ConfigDict

from muster.schemas.base import Name


class PreflightSettings(BaseModel):
    """default: the suite of jobs that name none; None: jobs that name none are not checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: Name | None = None
