"""The scheduler's core: pure fold and decision functions."""

from muster.scheduler.core.core import SchedulerCore

__all__ = ["SchedulerCore"]
