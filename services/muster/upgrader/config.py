"""Settings as the upgrader's core takes them. Outside of the core, which knows no settings files."""

from muster.bus.settings import UpgradeSettings
from muster.checks.suites import policy_of
from muster.core.settings import PreflightSettings
from muster.upgrader.core.config import UpgradeConfig, Validation


def config_of(settings: UpgradeSettings, preflight: PreflightSettings) -> UpgradeConfig:
    """The upgrader's part of the settings, and the suites of checks. Raises CheckError for suites that cannot be."""
    suites = policy_of(preflight).suites
    return UpgradeConfig(
        campaigns_max=settings.campaigns_max,
        suites={
            name: Validation(suite.checks, suite.limit_s, suite.cannot_run_passes) for name, suite in suites.items()
        },
        patience_s=settings.patience_s,
        rack_level=settings.rack_level,
    )
