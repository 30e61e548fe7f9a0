"""What a leading agent shows of its watches."""

from dataclasses import dataclass, field

from prometheus_client import REGISTRY

from muster.agent.kubernetes.metrics import MetricsPart
from muster.kube.figures import ReflectorFigures


@dataclass
class Watching:
    """A watch that tells what it is told to tell."""

    figures: ReflectorFigures = field(default_factory=lambda: ReflectorFigures("widgets.example"))
    synced: bool = True

    async def run(self) -> None:
        """Nothing comes."""

    async def wait_synced(self) -> None:
        """At once."""


def shown(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"resource": "widgets.example", **labels}) or 0.0


def sent() -> float:
    return REGISTRY.get_sample_value("muster_kube_requests_total", {"service": "agent"}) or 0.0


def test_a_watch_is_shown_as_it_is() -> None:
    watch = Watching()
    part = MetricsPart(lambda: [watch])
    watch.figures.synced, watch.figures.objects, watch.figures.heard_s = True, 7, 100.0
    part.show(130.0, requests=0)
    assert shown("muster_kube_watch_synced") == 1
    assert shown("muster_kube_objects") == 7
    assert shown("muster_kube_watch_silent_seconds") == 30.0


def test_counts_go_on_from_where_they_were() -> None:
    watch = Watching()
    part, before, sent_before = MetricsPart(lambda: [watch]), shown("muster_kube_lists_total"), sent()
    watch.figures.relists = 1
    part.show(1.0, requests=3)
    watch.figures.relists = 3
    part.show(2.0, requests=4)
    again = MetricsPart(lambda: [Watching(ReflectorFigures("widgets.example", relists=1))])  # another leader's time
    again.show(3.0, requests=2)
    assert shown("muster_kube_lists_total") - before == 4
    assert sent() - sent_before == 6
