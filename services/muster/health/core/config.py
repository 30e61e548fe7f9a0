"""What the health core is told: rules, and what it may do by itself."""

from dataclasses import dataclass, field

from muster.health.core.rules import RuleBook
from muster.schemas.facts.operations import CheckOrder

OPT_OUT_LABEL = "muster.dev/health"
"""A node with this label and the value `observe` is looked at, and left as it is."""
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
    """A node with `incidents` of its own within `window_s`, and `ratio` times as many as nodes have on average."""

    incidents: int = 3
    window_s: float = 30 * DAY_S
    ratio: float = 4.0


@dataclass(frozen=True, slots=True)
class PatrolConfig:
    """Checks beside jobs, and deep ones of idle nodes. *_every_s: between two of a node, 0: none. *_s: limit of one.

    deep_at_once: nodes that are deeply checked at a time.
    """

    periodic: tuple[CheckOrder, ...] = ()
    periodic_every_s: float = 0.0
    periodic_s: float = 120.0
    deep: tuple[CheckOrder, ...] = ()
    deep_every_s: float = 0.0
    deep_s: float = 3_600.0
    deep_at_once: int = 1


@dataclass(frozen=True, slots=True)
class HealthConfig:
    """See `HealthSettings`. verify, verify_device: checks that must all pass before a node or a device is given back.

    steady_s: how long a page must show that a lasting fault is over; nothing is judged in an exporter's first minute.
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
"""Nothing is a fault: for what needs the core's other parts alone."""
