"""Metrics over OTLP are those of the page: names, labels, sums, buckets, and the traces of exemplars."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from kit.observe.otlp_sink import otlp_sink
from kit.waiting import until
from muster.bus.metrics import also_exporting, registries
from muster.bus.otel_metrics import INTERVAL_VARIABLE, otlp_metrics, to_collector

TRACE = "0af7651916cd43dd8448eb211c80319c"


def page() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("jobs", "Jobs.", ("team",), registry=registry).labels("physics").inc(3)
    Gauge("lag", "Lag.", registry=registry).set(-0.5)
    waited = Histogram("waited_seconds", "Wait.", ("log",), buckets=(0.1, 1.0), registry=registry).labels("FED")
    waited.observe(0.05)
    waited.observe(0.5, exemplar={"trace_id": TRACE, "span_id": "b7ad6b7169203331"})
    waited.observe(7.0)
    Info("build", "Neither of the three.", registry=registry)
    return registry


def test_a_collector_gets_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
        registry = page()
        to_collector("scheduler", lambda: [registry], {}).close()
    points = {point.name: point for point in sink.points}
    assert set(points) == {"jobs_total", "lag", "waited_seconds"}
    assert {point.service for point in sink.points} == {"muster-scheduler"}
    assert (points["jobs_total"].labels, points["jobs_total"].value) == ({"team": "physics"}, 3)
    assert points["lag"].value == -0.5
    waited = points["waited_seconds"]
    assert (waited.labels, waited.value, waited.buckets) == ({"log": "FED"}, 3, (1, 1, 1))
    assert waited.traces == (TRACE,)


async def test_they_are_pushed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
        registry = page()
        push = to_collector("scheduler", lambda: [registry], {INTERVAL_VARIABLE: "10"})
        await until(lambda: len([point for point in sink.points if point.name == "lag"]) >= 3)
        push.close()


def test_a_family_without_samples_is_left_out() -> None:
    registry = CollectorRegistry()
    Counter("never", "Never counted.", ("team",), registry=registry)
    assert list(otlp_metrics(registry.collect(), started_ns=1, now_ns=2)) == []


def test_a_services_own_page_is_exported_for_as_long_as_it_lives() -> None:
    own = page()
    with also_exporting(own):
        assert own in registries()
    assert own not in registries()
