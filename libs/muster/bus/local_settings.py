"""Settings of a cluster whose jobs are processes of one machine."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class LocalSettings(BaseModel):
    """Jobs run as processes of the agent's machine, on the nodes that `fleet` says there are.

    directory: a folder for each attempt lies there, with what its processes printed. checkpoint_poll_s: how often it is
    looked whether a job wrote a checkpoint. secrets: a directory with TEAM/SECRET/KEY, files from which a job's
    `pod.secret_env` comes, readable by the agent's user alone; None: no job may name any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path
    checkpoint_poll_s: Annotated[float, Field(gt=0)] = 1.0
    secrets: Path | None = None
