"""Wiring only: what the scaler folds, which questions it answers, under which settings."""

from collections.abc import Sequence

from muster.bus.declaration import Declaration, QueryType
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import FabricSettings, Settings
from muster.core.scaling_settings import ScalingSettings
from muster.core.settings import ComposerSettings
from muster.scaler.core import ScalerCore
from muster.scaler.core.answers import answer_choices
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.metrics_sink import ChoicesSink
from muster.schemas import queries
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="scaler",
    folds=(StreamRole.LOG,),
    queries=(QueryType("choices", queries.AskFleet, queries.ScaleAnswer),),
    withholds=True,
)


def check(settings: Settings) -> None:
    """Raises ScalingConfigError, which names the field, for settings that cannot be."""
    config_of(settings.scaling, settings.fabrics, settings.composer)


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


def config_of(
    scaling: ScalingSettings, fabrics: Sequence[FabricSettings] = (), composer: ComposerSettings | None = None
) -> ScalingConfig:
    """What the settings allow, checked. Raises ScalingConfigError, which names the field."""
    return ScalingConfig(scaling, frozenset(fabric.name for fabric in fabrics), composer or ComposerSettings())
