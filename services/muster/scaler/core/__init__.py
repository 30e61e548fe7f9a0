"""The scaler's pure part."""

from muster.scaler.core.core import ScalerCore

__all__ = ["ScalerCore"]
