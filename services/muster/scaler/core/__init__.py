"""The scaler's core: pure fold and decision functions."""

from muster.scaler.core.core import ScalerCore

__all__ = ["ScalerCore"]
