"""Settings of the upgrader's core."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.schemas.facts.operations import CheckOrder


@dataclass(frozen=True, slots=True)
class Validation:
    """Checks of a node after its upgrade, with their total limit; `cannot_run_passes` accepts those that cannot run."""

    checks: tuple[CheckOrder, ...]
    limit_s: float = 900.0
    cannot_run_passes: bool = True


@dataclass(frozen=True, slots=True)
class UpgradeConfig:
    """Limits, and suites of checks by name.

    A node that is not full is kept for its turn at most `patience_s` before. `per_rack` counts by `rack_level`.
    """

    campaigns_max: int = 4
    suites: Mapping[str, Validation] = field(default_factory=dict)
    patience_s: float = 4 * 3600.0
    rack_level: str = "rack"
