"""Counters and times of changes.

A decision uses the counters to see whether a cached answer still holds, and the cooldowns to leave a group, a fabric or
its removals alone for a time after a failure or a change.
"""

from dataclasses import dataclass

from muster.core import NS_PER_S, Instant, after
from muster.core.settings import GroupSettings
from muster.scaler.core.choices import ADD, ATTACH, OpenChoice
from muster.scaler.core.fabrics import Pool
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.limits import LOOK_AGAIN_QUEUES, LOOK_AGAIN_S, MOVED_KEPT

BEGIN = Instant(0)
"""The time before the first fact."""


@dataclass(slots=True)
class Changes:
    """Counters that only grow, written by the fold."""

    pool: Pool
    added: int = 0
    """Grows with facts that may make something available to a job."""
    freed: int = 0
    """Grows when places became free."""
    taken: int = 0
    """Grows when a job takes places."""
    supplied_at: Instant = BEGIN
    """When `supply` last grew."""
    freed_at: Instant = BEGIN
    """When places last became free."""

    @property
    def supply(self) -> tuple[int, int]:
        """Counters that grow when something may have become available, other than freed places."""
        return self.added, self.pool.version

    def note(self, supply: tuple[int, int], freed: int, *, at: Instant) -> None:
        """Record the time of a fact; `supply` and `freed` are the values before it was folded."""
        if self.supply != supply:
            self.supplied_at = at
        if self.freed != freed:
            self.freed_at = at

    def look_again_at(self, waiting: int) -> Instant:
        """Return when refused jobs are tried again because places became free: later if more pending queues wait."""
        rounds = 1 + waiting // LOOK_AGAIN_QUEUES
        grid_ns = round(LOOK_AGAIN_S * rounds * NS_PER_S)
        return Instant(-(-self.freed_at // grid_ns) * grid_ns)


class Cooldowns:
    """When something last failed or moved. Written by the fold; a cooldown that has begun never shrinks."""

    def __init__(self, config: ScalingConfig, pool: Pool) -> None:
        self._settings = config.settings
        self._pool = pool
        self.moved_at: dict[str, Instant] = {}
        """When a device or node was last added to or taken from a node or group, by name."""
        self.failed_at: dict[str, Instant] = {}
        """When a choice last failed. Keys: the name of a group, `removal/NAME` for its removals, `fabric/NAME` for a
        fabric."""

    def note_failed(self, choice: OpenChoice, at: Instant) -> None:
        """Begin the cooldown of the fabrics, or of the group, of a failed choice."""
        if choice.name == ATTACH:
            names = {f"fabric/{part.fabric}" for part in choice.chosen.parts}
        else:
            names = {choice.chosen.group if choice.name == ADD else f"removal/{choice.chosen.group}"}
        for name in sorted(names):
            self.failed_at[name] = at

    def note_moved(self, name: str, at: Instant) -> None:
        """Record that something was added to, or taken from, this node or group."""
        self.moved_at.pop(name, None)
        self.moved_at[name] = at
        if len(self.moved_at) > MOVED_KEPT:
            del self.moved_at[next(iter(self.moved_at))]

    def failed_until(self, name: str) -> Instant:
        """Return when the cooldown after the last failure ends; 0 if nothing failed. Keys as in `failed_at`."""
        failed_at = self.failed_at.get(name)
        return Instant(0) if failed_at is None else after(failed_at, self._settings.delay_after_failure_s)

    def breaker_until(self, fabric: str) -> Instant:
        """Return until when the breaker of a fabric is open; 0 if it is closed."""
        return self._pool.closed_until.get(fabric, Instant(0))

    def fabric_until(self, fabric: str) -> Instant:
        """Return until when no request is sent to a fabric."""
        return max(self.failed_until(f"fabric/{fabric}"), self.breaker_until(fabric))

    def gpus_until(self, group: GroupSettings) -> Instant:
        """Return until when no GPU is taken from the group, after a failure or while its fabric takes no calls."""
        return max(self.fabric_until(group.fabric), self.failed_until(f"removal/{group.name}"))

    def nodes_until(self, group: GroupSettings) -> Instant:
        """Return until when no node is taken from the group, after one was added or a failure."""
        added = self.moved_at.get(group.name)
        settled = Instant(0) if added is None else after(added, self._settings.delay_after_add_s)
        return max(settled, self.failed_until(f"removal/{group.name}"))

    def next_after(self, now: Instant) -> list[Instant]:
        """Return the future ends of cooldowns after failures, and of open breakers."""
        ends = [self.failed_until(name) for name in self.failed_at] + list(self._pool.closed_until.values())
        return [end for end in ends if end > now]
