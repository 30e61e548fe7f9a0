"""Whether what a node's exporter says still changes: one whose DCGM hangs goes on answering with what it knew last."""

from collections.abc import Container
from dataclasses import dataclass

from muster.core import Instant, seconds_between
from muster.telemetry.core.names import Field
from muster.telemetry.core.pages import Page

LIVELY = (Field.ENERGY_MJ, Field.POWER_W)
"""What never stands still on a GPU that is read: an idle one draws power too, and not always the same."""
Print = tuple[float, ...]


@dataclass(slots=True)
class _Seen:
    values: Print
    since: Instant


class Freshness:
    """By node, since when its page says the same. stale_s: so long it may."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._seen: dict[str, _Seen] = {}

    def is_stale(self, node: str, page: Page, at: Instant) -> bool:
        """True if the page says the same for too long. A page that shows neither energy nor power never is."""
        values = _print(page)
        known = self._seen.get(node)
        if not values or known is None or known.values != values:
            self._seen[node] = _Seen(values, at)
            return False
        return seconds_between(known.since, at) >= self._stale_s

    def forget(self, node: str) -> None:
        """The node's page could not be had."""
        self._seen.pop(node, None)

    def keep(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        for node in [node for node in self._seen if node not in nodes]:
            del self._seen[node]


def _print(page: Page) -> Print:
    return tuple(
        float(value)
        for gpu in page.gpus.values()
        for instance in gpu.instances.values()
        for of in LIVELY
        if (value := instance.values.get(of)) is not None
    )
