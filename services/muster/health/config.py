"""The health core's part of the settings."""

from muster.bus.settings import Settings
from muster.checks.suites import NONE, Suite, policy_of, suite_of
from muster.health.core.config import BrakeConfig, HealthConfig, LemonConfig, PatrolConfig
from muster.health.rule_files import load_rules


def config_of(settings: Settings) -> HealthConfig:
    """Return health's configuration. Raises RulesError and CheckError for invalid rules and suites."""
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
