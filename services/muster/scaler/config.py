"""Settings as the scaler's core takes them. Outside of the core, which knows no settings files."""

from collections.abc import Sequence

from muster.bus.settings import FabricSettings
from muster.core.settings import ComposerSettings, ScalingSettings
from muster.scaler.core.groups import ScalingConfig


def config_of(
    scaling: ScalingSettings, fabrics: Sequence[FabricSettings] = (), composer: ComposerSettings | None = None
) -> ScalingConfig:
    """What the settings allow, checked. Raises ScalingConfigError, which names the field."""
    return ScalingConfig(scaling, frozenset(fabric.name for fabric in fabrics), composer or ComposerSettings())
