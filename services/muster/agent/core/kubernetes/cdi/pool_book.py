"""How many devices of each model are free in each fabric, as the composer's facts say."""

from collections.abc import Iterable
from typing import NamedTuple

from muster.core import Fact
from muster.schemas.devices import GPU, PoolModel
from muster.schemas.facts.composability import RequestAccepted
from muster.schemas.facts.device import (
    AttachmentRequested,
    AttachmentState,
    DeviceAttached,
    DeviceDetached,
)
from muster.schemas.facts.fabric import FabricState, FabricSurveyed


class PoolKey(NamedTuple):
    """One model in one fabric."""

    fabric: str
    model: str


class PoolBook:
    """Free is what the newest survey found, less what was attached since, and more what came back."""

    def __init__(self) -> None:
        self._free: dict[PoolKey, int] = {}
        self._of: dict[str, PoolKey] = {}

    def free(self, key: PoolKey) -> int:
        """Devices in the pool."""
        return max(0, self._free.get(key, 0))

    def apply(self, fact: Fact) -> tuple[PoolKey, ...]:
        """One fact further. Returns the pools of which it changed the number."""
        payload = fact.payload
        match payload:
            case FabricSurveyed():
                return self._survey(fact.subject_id, payload.pool)
            case FabricState() if payload.surveyed:
                return self._survey(fact.subject_id, payload.pool.values())
            case RequestAccepted():
                for order in payload.orders:
                    self._of[order.id] = PoolKey(order.fabric, order.model or payload.spec.model)
            case AttachmentRequested():
                self._of[fact.subject_id] = PoolKey(payload.fabric, payload.model)
            case AttachmentState() if not payload.phase.is_over:
                self._of[fact.subject_id] = PoolKey(payload.requested.fabric, payload.requested.model)
            case DeviceAttached() if payload.type == GPU and not payload.adopted:
                return self._move(fact.subject_id, -1)
            case DeviceDetached() if payload.type == GPU:
                changed = self._move(fact.subject_id, 1)
                self._of.pop(fact.subject_id, None)
                return changed
            case _:
                pass
        return ()

    def _survey(self, fabric: str, pool: Iterable[PoolModel]) -> tuple[PoolKey, ...]:
        before = {key: free for key, free in self._free.items() if key.fabric == fabric}
        now = {PoolKey(fabric, one.model): one.free for one in pool if one.type == GPU}
        for key in before:
            self._free.pop(key)
        self._free.update(now)
        return tuple(key for key in {**before, **now} if before.get(key) != now.get(key))

    def _move(self, attachment: str, by: int) -> tuple[PoolKey, ...]:
        key = self._of.get(attachment)
        if key is None:
            return ()
        self._free[key] = self._free.get(key, 0) + by
        return (key,)
