"""The pure part of the upgrader service."""

from muster.upgrader.core.core import UpgraderCore

__all__ = ["UpgraderCore"]
