"""Helpers for metrics of services: gauges of a leader, and labels of a bounded number."""

from collections.abc import Callable

from prometheus_client import Gauge

OTHER = "other"


class LeaderGauges:
    """Samples of one term of a service. Every gauge has labels; another term may show the same ones.

    They are removed at the end of the term: a follower's would be stale.
    """

    def __init__(self) -> None:
        self._shown: dict[tuple[Gauge, tuple[str, ...]], Gauge] = {}

    def show(self, gauge: Gauge, value: float, *labels: str) -> None:
        """Set one sample."""
        self._sample(gauge, labels).set(value)

    def show_computed(self, gauge: Gauge, value: Callable[[], float], *labels: str) -> None:
        """Show a sample that is computed at each scrape, in the thread of the metrics page."""
        self._sample(gauge, labels).set_function(value)

    def hide(self) -> None:
        """Remove the samples at the end of the term."""
        for gauge, labels in self._shown:
            gauge.remove(*labels)
        self._shown.clear()

    def _sample(self, gauge: Gauge, labels: tuple[str, ...]) -> Gauge:
        key = gauge, labels
        known = self._shown.get(key)
        if known is None:
            known = self._shown[key] = gauge.labels(*labels)
        return known


class BoundedLabels:
    """Labels for names that users choose: the first names are shown, all others as `other`.

    A name keeps its label as long as this object lives.
    """

    def __init__(self, names_max: int) -> None:
        assert names_max > 0, "at least one name is shown"
        self._names_max = names_max
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """Return the label of a name."""
        if name in self._known:
            return name
        if len(self._known) >= self._names_max:
            return OTHER
        self._known.add(name)
        return name
