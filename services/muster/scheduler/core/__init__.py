"""The pure part of the scheduler."""

from muster.scheduler.core.core import SchedulerCore

__all__ = ["SchedulerCore"]
