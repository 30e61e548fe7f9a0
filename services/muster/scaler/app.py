"""Wiring only: what the scaler folds, which questions it answers, under which settings."""

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.scaler.config import config_of
from muster.scaler.core import ScalerCore
from muster.scaler.core.answers import answer_choices
from muster.scaler.declaration import DECLARATION
from muster.scaler.metrics_sink import ChoicesSink
from muster.schemas.registry import StreamRole


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The scaler of one cluster. Raises ScalingConfigError, which names the field, for settings that cannot be."""
    config = config_of(settings.scaling, settings.fabrics, settings.composer)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: ScalerCore(config),
            queries={"choices": answer_choices},
            sink=lambda: ChoicesSink(settings.cluster),
        ),
    )
