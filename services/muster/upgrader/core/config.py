"""Settings as the upgrader's core takes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.schemas.facts.operations import CheckOrder


@dataclass(frozen=True, slots=True)
class Validation:
    """Checks of a node after its upgrade. limit_s: of all together. cannot_run_passes: those that could not run."""

    checks: tuple[CheckOrder, ...]
    limit_s: float = 900.0
    cannot_run_passes: bool = True


@dataclass(frozen=True, slots=True)
class UpgradeConfig:
    """campaigns_max: that go on at the same time. suites: checks by name. patience_s: a node that is not full is kept
    for its turn at most so long before. rack_level: the level of topology that `per_rack` counts by.
    """

    campaigns_max: int = 4
    suites: Mapping[str, Validation] = field(default_factory=dict)
    patience_s: float = 4 * 3600.0
    rack_level: str = "rack"
