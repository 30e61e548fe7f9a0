"""Wiring only: what the upgrader folds, which questions it answers, under which settings."""

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings, UpgradeSettings
from muster.checks.suites import policy_of
from muster.core.settings import PreflightSettings
from muster.schemas.registry import StreamRole
from muster.upgrader.core import UpgraderCore, answers
from muster.upgrader.core.config import UpgradeConfig, Validation
from muster.upgrader.declaration import DECLARATION
from muster.upgrader.metrics_sink import CampaignsSink


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


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The upgrader of one cluster. Raises CheckError for suites of checks that cannot be."""
    config = config_of(settings.upgrades, settings.preflight)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: UpgraderCore(config),
            queries={
                "campaigns": answers.answer_campaigns,
                "campaign-check": answers.answer_check,
                "preview": answers.answer_preview,
            },
            sink=lambda: CampaignsSink(settings.cluster),
        ),
    )
