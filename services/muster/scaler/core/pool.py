"""What lies in the pools of the fabrics: as last surveyed, and as devices came and went since."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.core import Instant
from muster.schemas.devices import GPU, PoolModel

Key = tuple[str, str, str]
"""Fabric, type and model."""


@dataclass(slots=True)
class Stock:
    """Devices of one model in one fabric."""

    free: int = 0
    attached: int = 0


class Pool:
    """All fabrics. closed_until: of a fabric whose breaker is open, when it is tried again.

    version: grows whenever there may be more than before.
    """

    def __init__(self) -> None:
        self.stocks: dict[Key, Stock] = {}
        self.closed_until: dict[str, Instant] = {}
        self.version = 0

    def survey(self, fabric: str, found: Iterable[PoolModel]) -> None:
        """This is what the fabric holds."""
        for key in [key for key in self.stocks if key[0] == fabric]:
            del self.stocks[key]
        for entry in found:
            self.stocks[fabric, entry.type, entry.model] = Stock(entry.free, entry.attached)
        self.version += 1

    def take(self, key: Key) -> None:
        """One device went from the pool to a machine."""
        stock = self.stocks.setdefault(key, Stock())
        stock.free, stock.attached = max(0, stock.free - 1), stock.attached + 1

    def give(self, key: Key) -> None:
        """One device came back."""
        stock = self.stocks.setdefault(key, Stock())
        stock.free, stock.attached = stock.free + 1, max(0, stock.attached - 1)
        self.version += 1

    def open_breaker(self, fabric: str, until: Instant) -> None:
        """No calls to this fabric until then."""
        self.closed_until[fabric] = until

    def close_breaker(self, fabric: str) -> None:
        """It answers again."""
        if self.closed_until.pop(fabric, None) is not None:
            self.version += 1

    def free(self, fabric: str, model: str) -> int:
        """GPUs that lie in the pool, also those that are kept for somebody."""
        stock = self.stocks.get((fabric, GPU, model))
        return 0 if stock is None else stock.free
