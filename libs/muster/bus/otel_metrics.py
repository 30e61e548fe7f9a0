"""The metrics of a process over OTLP, now and then, from a thread of its own: the same names as on its pages.

What is counted is counted once, by prometheus-client; here its registries become OpenTelemetry data: counters are
monotonic cumulative sums, histograms keep their bounds, exemplars keep the trace. A collector that is away costs
nothing but the export: the next one carries the same sums.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Event, Thread

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Sample

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.limits import METRICS_PUSH_S, METRICS_PUSH_TIMEOUT_S, SPAN_FLUSH_S
from muster.core.instant import NS_PER_S

INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"  # milliseconds
_SCOPE = InstrumentationScope("muster.bus")

_logger = logging.getLogger(__name__)
Registries = Callable[[], Iterable[CollectorRegistry]]


def to_collector(service: str, registries: Registries, environment: Mapping[str, str]) -> "MetricsPush":
    """Start pushing by the standard OTEL_* variables. Raises ValueError for an interval that is not a number."""
    interval_ms = float(environment.get(INTERVAL_VARIABLE) or METRICS_PUSH_S * 1000)
    return MetricsPush(service, registries, exporter=OTLPMetricExporter(), interval_s=interval_ms / 1000)


class MetricsPush:
    """Exports all registries every `interval_s`, and once more when it is closed."""

    def __init__(
        self,
        service: str,
        registries: Registries,
        *,
        exporter: MetricExporter,
        interval_s: float,
        time: TimeSource | None = None,
    ) -> None:
        self._resource = Resource.create({"service.name": service if service == "muster" else f"muster-{service}"})
        self._registries = registries
        self._exporter = exporter
        self._interval_s = interval_s
        self._time = time or SystemTime()
        self._started_ns = self._time.wall()
        self._ends = Event()
        self._thread = Thread(target=self._run, name="metrics over OTLP", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Push what is left. A collector that does not answer is left alone after `SPAN_FLUSH_S`."""
        self._ends.set()
        self._thread.join(SPAN_FLUSH_S)

    def _run(self) -> None:
        while not self._ends.wait(self._interval_s):
            self._push()
        self._push()
        self._exporter.shutdown()

    def _push(self) -> None:
        families = [family for registry in self._registries() for family in registry.collect()]
        metrics = list(otlp_metrics(families, started_ns=self._started_ns, now_ns=self._time.wall()))
        data = MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(_SCOPE, metrics, "")], "")])
        try:
            self._exporter.export(data, timeout_millis=METRICS_PUSH_TIMEOUT_S * 1000)
        except Exception:  # the exporter retries and tells by itself; what it did not foresee must not end the thread
            _logger.exception("metrics could not be sent; the next ones carry the same sums")


def otlp_metrics(families: Iterable[Family], *, started_ns: int, now_ns: int) -> Iterator[Metric]:
    """Prometheus families as OpenTelemetry metrics. Pure. Instants in nanoseconds; counters began at `started_ns`.

    Counters are named with `_total`, as on the page, so that a query works on either. What is neither counter, gauge
    nor histogram is passed over: Muster has none.
    """
    for family in families:
        match family.type:
            case "counter":
                points = [_number(one, started_ns, now_ns) for one in family.samples if one.name.endswith("_total")]
                data: Sum | Gauge | Histogram = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
                name = f"{family.name}_total"
            case "gauge":
                data = Gauge([_number(one, 0, now_ns) for one in family.samples])
                name = family.name
            case "histogram":
                data = Histogram(list(_histograms(family, started_ns, now_ns)), AggregationTemporality.CUMULATIVE)
                name = family.name
            case _:
                continue
        if data.data_points:
            yield Metric(name, family.documentation, None, data)


def _number(sample: Sample, started_ns: int, now_ns: int) -> NumberDataPoint:
    return NumberDataPoint(dict(sample.labels), started_ns, now_ns, sample.value, list(_exemplars(sample)))


def _histograms(family: Family, started_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    """Yield one point per set of labels; its samples are adjacent: buckets by bound, then count and sum."""
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        series.setdefault(labels, []).append(sample)
    for labels, samples in series.items():
        buckets = [one for one in samples if one.name.endswith("_bucket")]
        sums = {one.name: one.value for one in samples}
        below = [0.0, *(one.value for one in buckets[:-1])]
        yield HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=started_ns,
            time_unix_nano=now_ns,
            count=round(buckets[-1].value),
            sum=sums[f"{family.name}_sum"],
            bucket_counts=[round(one.value - before) for one, before in zip(buckets, below, strict=True)],
            explicit_bounds=[float(one.labels["le"]) for one in buckets if one.labels["le"] != "+Inf"],
            min=None,  # type: ignore[arg-type]  # not known; the encoder leaves it out
            max=None,  # type: ignore[arg-type]
            exemplars=[exemplar for one in buckets for exemplar in _exemplars(one)],
        )


def _exemplars(sample: Sample) -> Iterator[Exemplar]:
    """Yield the exemplar of a bucket or counter: the last job that fell into it."""
    seen = sample.exemplar
    if seen is not None and "trace_id" in seen.labels:
        trace, span = int(seen.labels["trace_id"], 16), int(seen.labels.get("span_id", "0"), 16)
        yield Exemplar({}, seen.value, round(float(seen.timestamp or 0.0) * NS_PER_S), span_id=span, trace_id=trace)
