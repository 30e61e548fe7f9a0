"""Configuration of the health core: rules, and automatic actions."""

from dataclasses import dataclass, field

from muster.health.core.rules import RuleBook
from muster.schemas.facts.operations import CheckOrder

OPT_OUT_LABEL = "muster.dev/health"
"""Label of nodes that are only observed, with the value `observe`."""
OBSERVE = "observe"
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class BrakeConfig:
    """More than `share` of the nodes, and more than `nodes_min`, suspected within `window_s` trip the brake."""

    share: float = 0.1
    nodes_min: int = 3
    window_s: float = 600.0


@dataclass(frozen=True, slots=True)
class LemonConfig:
    """A lemon: a node with `incidents` within `window_s`, and `ratio` times the average of nodes."""

    incidents: int = 3
    window_s: float = 30 * DAY_S
    ratio: float = 4.0


@dataclass(frozen=True, slots=True)
class PatrolConfig:
    """Periodic checks beside jobs, and deep checks of idle nodes, at most `deep_at_once`. Interval 0: off."""

    periodic: tuple[CheckOrder, ...] = ()
    periodic_every_s: float = 0.0
    periodic_s: float = 120.0
    deep: tuple[CheckOrder, ...] = ()
    deep_every_s: float = 0.0
    deep_s: float = 3_600.0
    deep_at_once: int = 1


@dataclass(frozen=True, slots=True)
class HealthConfig:
    """See `HealthSettings`. All checks of `verify` and `verify_device` must pass before a node or device is returned.

    A page must show for `steady_s` that a lasting fault is over; nothing is judged in an exporter's first minute.
    """

    rules: RuleBook = field(default_factory=RuleBook)
    verify: tuple[CheckOrder, ...] = ()
    verify_s: float = 1_800.0
    verify_device: tuple[CheckOrder, ...] = ()
    verify_device_s: float = 600.0
    dry_run: bool = False
    repair: bool = True
    opt_out: frozenset[str] = frozenset()
    attempts_max: int = 3
    action_s: float = 1_800.0
    soak_s: float = 0.0
    steady_s: float = 60.0
    brake: BrakeConfig = field(default_factory=BrakeConfig)
    lemon: LemonConfig = field(default_factory=LemonConfig)
    patrol: PatrolConfig = field(default_factory=PatrolConfig)


NO_RULES = HealthConfig()
"""No rules: for users of the other parts of the core."""
