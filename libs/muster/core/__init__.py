"""What every pure core is made of: facts, drafts, instants, seeded chance."""

from muster.core.fact import Core, Draft, Fact
from muster.core.instant import NEVER, NS_PER_S, Instant, after, seconds_between

__all__ = ["NEVER", "NS_PER_S", "Core", "Draft", "Fact", "Instant", "after", "seconds_between"]
