"""Gauges of what a leader believes. They are taken off the page when its term is over: a follower's would be stale."""

from collections.abc import Callable

from prometheus_client import Gauge


class LeaderGauges:
    """The samples that one term of a service shows. Every gauge has labels; another term may show the same ones."""

    def __init__(self) -> None:
        self._shown: dict[tuple[Gauge, tuple[str, ...]], Gauge] = {}

    def show(self, gauge: Gauge, value: float, *labels: str) -> None:
        """Set one sample."""
        self._sample(gauge, labels).set(value)

    def show_computed(self, gauge: Gauge, value: Callable[[], float], *labels: str) -> None:
        """One sample that is computed when somebody looks, in the thread of the metrics page."""
        self._sample(gauge, labels).set_function(value)

    def hide(self) -> None:
        """The term is over."""
        for gauge, labels in self._shown:
            gauge.remove(*labels)
        self._shown.clear()

    def _sample(self, gauge: Gauge, labels: tuple[str, ...]) -> Gauge:
        key = gauge, labels
        known = self._shown.get(key)
        if known is None:
            known = self._shown[key] = gauge.labels(*labels)
        return known
