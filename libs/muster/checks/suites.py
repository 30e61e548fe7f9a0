"""Suites of checks. Some are built in; the settings add or replace suites."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.checks import catalogue
from muster.checks.catalogue import CheckError
from muster.core.settings import CheckSettings, PreflightSettings, SuiteSettings
from muster.schemas.facts.operations import CheckOrder

NONE = "none"
"""The suite name of a job without checks."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of checks. limit_s: of all checks together. cannot_run_passes: a check that could not run counts
    as a pass."""

    name: str
    checks: tuple[CheckOrder, ...]
    limit_s: float = 600.0
    cannot_run_passes: bool = True


@dataclass(frozen=True, slots=True)
class PreflightPolicy:
    """The suites, and their assignment to jobs. default: suite of jobs that name none; "": no checks.

    gpus_least: minimum of whole GPUs for the default suite; a smaller job may still name a suite.
    """

    suites: Mapping[str, Suite] = field(default_factory=lambda: BUILT_IN)
    default: str = ""
    gpus_least: int = 1


def _built_in() -> dict[str, Suite]:
    order, level = catalogue.order, {name: {"level": name} for name in ("1", "2", "3")}
    count, health = order(catalogue.DEVICE_COUNT), order(catalogue.GPU_HEALTH)
    peers, reduce = order(catalogue.PEER_BANDWIDTH), order(catalogue.ALL_REDUCE)
    suites = (
        Suite("quick", (count, health), limit_s=120.0),
        Suite("standard", (count, health, order(catalogue.DCGM, parameters=level["1"]), peers, reduce)),
        Suite("periodic", (count, health), limit_s=120.0),
        Suite("validate", (count, health, order(catalogue.DCGM, parameters=level["2"]), peers), limit_s=900.0),
        Suite("deep", (count, health, order(catalogue.DCGM, limit_s=2400.0, parameters=level["3"]), peers), 3600.0),
    )
    return {suite.name: suite for suite in suites}


BUILT_IN: Mapping[str, Suite] = _built_in()
QUICK = BUILT_IN["quick"]


def policy_of(settings: PreflightSettings) -> PreflightPolicy:
    """Return the policy of the settings. Raises CheckError for unknown checks, parameters and suites."""
    suites = {**BUILT_IN, **{one.name: _suite_of(one) for one in settings.suites}}
    if settings.default is not None and settings.default not in suites:
        raise CheckError(f"preflight.default: there is no suite {settings.default!r}; use one of {', '.join(suites)}")
    return PreflightPolicy(suites, settings.default or "", settings.gpus_least)


def suite_of(policy: PreflightPolicy, name: str) -> Suite:
    """Return the suite of this name. Raises CheckError."""
    suite = policy.suites.get(name)
    if suite is None:
        raise CheckError(f"preflight: there is no suite {name!r}; there are {', '.join((*policy.suites, NONE))}")
    return suite


def _suite_of(settings: SuiteSettings) -> Suite:
    if settings.name == NONE:
        raise CheckError(f"preflight.suites: {NONE!r} is reserved for no checks; use another name")
    orders = tuple(_order_of(one) for one in settings.checks)
    return Suite(settings.name, orders, settings.limit_s, settings.cannot_run_passes)


def _order_of(settings: CheckSettings) -> CheckOrder:
    return catalogue.order(
        settings.check, limit_s=settings.limit_s, parameters=settings.parameters, command=settings.command
    )
