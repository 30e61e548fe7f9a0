"""Wiring only: what the upgrader folds, which questions it answers, under which settings."""

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.schemas.registry import StreamRole
from muster.upgrader.config import config_of
from muster.upgrader.core import UpgraderCore, answers
from muster.upgrader.declaration import DECLARATION
from muster.upgrader.metrics_sink import CampaignsSink


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
