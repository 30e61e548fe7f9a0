"""Converts settings for the scaler's core, which does not know settings files."""

from collections.abc import Sequence

from muster.bus.settings import FabricSettings
from muster.core.settings import ComposerSettings, ScalingSettings
from muster.scaler.core.groups import ScalingConfig


def config_of(
    scaling: ScalingSettings, fabrics: Sequence[FabricSettings] = (), composer: ComposerSettings | None = None
) -> ScalingConfig:
    """Return the checked configuration. Raise ScalingConfigError, which names the field, if settings are invalid."""
    return ScalingConfig(scaling, frozenset(fabric.name for fabric in fabrics), composer or ComposerSettings())
