"""What metrics of services are made of: gauges of a leader, and labels whose number is bounded."""

from collections.abc import Callable

from prometheus_client import Gauge

OTHER = "other"


class LeaderGauges:
    """The samples that one term of a service shows. Every gauge has labels; another term may show the same ones.

    They are taken off the page when the term is over: a follower's would be stale.
    """

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


class BoundedLabels:
    """Names of people's making as labels: the first that came are shown by themselves, the rest as `other`.

    A name keeps its label for as long as this lives.
    """

    def __init__(self, names_max: int) -> None:
        assert names_max > 0, "at least one name is shown"
        self._names_max = names_max
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """The label of a name."""
        if name in self._known:
            return name
        if len(self._known) >= self._names_max:
            return OTHER
        self._known.add(name)
        return name
