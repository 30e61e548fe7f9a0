"""The types of every pure core: facts, drafts, instants, seeded random numbers."""

from muster.core.fact import Core, Draft, Fact, ObservingCore
from muster.core.instant import NEVER, NS_PER_S, Instant, after, seconds_between

__all__ = ["NEVER", "NS_PER_S", "Core", "Draft", "Fact", "Instant", "ObservingCore", "after", "seconds_between"]
