"""Settings of the health service: its rules, its brake, and what it may do by itself."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class HealthSettings(BaseModel):
    """rules: a file of rules in place of the built-in ones. dry_run: verdicts are recorded, nothing is withheld."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: Path | None = None
    dry_run: bool = False
