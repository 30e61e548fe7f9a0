"""The fold of the guard."""

from muster.guard.core.core import GuardCore

__all__ = ["GuardCore"]
