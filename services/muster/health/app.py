"""Wiring only: the health core of one cluster under its settings, and the readings that it observes."""

from muster.bus.declaration import Declaration, QueryType
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.checks.suites import NONE, Suite, policy_of, suite_of
from muster.health.core.answers import answer_conditions
from muster.health.core.config import BrakeConfig, HealthConfig, LemonConfig, PatrolConfig
from muster.health.core.core import HealthCore
from muster.health.metrics import HealthMetrics
from muster.health.rule_files import load_rules
from muster.health.sink import ReadingsSink
from muster.schemas.conditions import AskConditions, ConditionsAnswer
from muster.schemas.registry import StreamRole


def config_of(settings: Settings) -> HealthConfig:
    """Health's part of the settings. Raises RulesError and CheckError for rules and suites that cannot be used."""
    health = settings.health
    verify, verify_device = _suite(settings, health.verify), _suite(settings, health.verify_device)
    periodic, deep = _suite(settings, health.periodic), _suite(settings, health.deep)
    return HealthConfig(
        rules=load_rules(health.rules),
        verify=verify.checks if verify is not None else (),
        verify_s=verify.limit_s if verify is not None else 0.0,
        verify_device=verify_device.checks if verify_device is not None else (),
        verify_device_s=verify_device.limit_s if verify_device is not None else 0.0,
        dry_run=health.dry_run,
        repair=health.repair,
        opt_out=frozenset(health.opt_out),
        attempts_max=health.attempts_max,
        action_s=health.action_s,
        soak_s=health.soak_s,
        steady_s=health.steady_s,
        patrol=PatrolConfig(
            periodic=periodic.checks if periodic is not None else (),
            periodic_every_s=health.periodic_every_s,
            periodic_s=periodic.limit_s if periodic is not None else 0.0,
            deep=deep.checks if deep is not None else (),
            deep_every_s=health.deep_every_s,
            deep_s=deep.limit_s if deep is not None else 0.0,
            deep_at_once=health.deep_at_once,
        ),
        brake=BrakeConfig(health.brake.share, health.brake.nodes_min, health.brake.window_s),
        lemon=LemonConfig(health.lemons.incidents, health.lemons.window_s, health.lemons.ratio),
    )


def _suite(settings: Settings, name: str) -> Suite | None:
    return None if name == NONE else suite_of(policy_of(settings.preflight), name)


DECLARATION = Declaration(
    service="health",
    folds=(StreamRole.LOG,),
    queries=(QueryType("conditions", AskConditions, ConditionsAnswer),),
    subscribes=("telemetry.{cluster}.*",),
    withholds=True,
)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The health service of one cluster."""
    config = config_of(settings)
    cluster, listens = settings.cluster, settings.health.enabled
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: HealthCore(config),
            queries={"conditions": answer_conditions},
            sink=lambda: ReadingsSink(cluster, listens=listens, metrics=HealthMetrics(cluster)),
        ),
    )


def check(settings: Settings) -> None:
    """Whether it can work with these settings. Raises ValueError that says why not."""
    config_of(settings)
