"""A collector for tests: takes traces, metrics and logs as OTLP over HTTP on loopback and keeps what came."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class SeenSpan:
    """One span as it came over the wire. Ids are hex; parent is "" if it has none."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    links: tuple[str, ...]
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class SeenLine:
    """One log record. trace, span: "" if it is about no job."""

    service: str
    logger: str
    level: str
    message: str
    trace: str
    span: str


@dataclass(frozen=True)
class SeenPoint:
    """One point of a metric. value: of a sum or gauge, or how many a histogram counted. traces: of its exemplars."""

    service: str
    name: str
    labels: dict[str, str]
    value: float
    buckets: tuple[int, ...] = ()
    traces: tuple[str, ...] = ()


@dataclass
class OtlpSink:
    """Where it listens, and what came so far."""

    url: str = ""
    _spans: list[SeenSpan] = field(default_factory=list)
    _lines: list[SeenLine] = field(default_factory=list)
    _points: list[SeenPoint] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def spans(self) -> list[SeenSpan]:
        with self._lock:
            return list(self._spans)

    @property
    def lines(self) -> list[SeenLine]:
        with self._lock:
            return list(self._lines)

    @property
    def points(self) -> list[SeenPoint]:
        with self._lock:
            return list(self._points)

    def take(self, path: str, body: bytes) -> None:
        """One export request."""
        takes: dict[str, Callable[[bytes], None]] = {
            "/v1/traces": lambda sent: self._spans.extend(_spans(ExportTraceServiceRequest.FromString(sent))),
            "/v1/logs": lambda sent: self._lines.extend(_lines(ExportLogsServiceRequest.FromString(sent))),
            "/v1/metrics": lambda sent: self._points.extend(_points(ExportMetricsServiceRequest.FromString(sent))),
        }
        with self._lock:
            takes[path](body)


def _service(resource: Resource) -> str:
    return next(one.value.string_value for one in resource.attributes if one.key == "service.name")


def _spans(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield SeenSpan(
                    service=_service(of_resource.resource),
                    name=span.name,
                    trace=span.trace_id.hex(),
                    span=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    links=tuple(link.span_id.hex() for link in span.links),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                )


def _lines(request: ExportLogsServiceRequest) -> Iterator[SeenLine]:
    for of_resource in request.resource_logs:
        for of_scope in of_resource.scope_logs:
            for record in of_scope.log_records:
                yield SeenLine(
                    service=_service(of_resource.resource),
                    logger=of_scope.scope.name,
                    level=record.severity_text,
                    message=record.body.string_value,
                    trace=record.trace_id.hex(),
                    span=record.span_id.hex(),
                )


def _points(request: ExportMetricsServiceRequest) -> Iterator[SeenPoint]:
    for of_resource in request.resource_metrics:
        service = _service(of_resource.resource)
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                for number in (*metric.sum.data_points, *metric.gauge.data_points):
                    yield SeenPoint(service, metric.name, _labels(number.attributes), number.as_double)
                for seen in metric.histogram.data_points:
                    traces = tuple(exemplar.trace_id.hex() for exemplar in seen.exemplars)
                    buckets = tuple(seen.bucket_counts)
                    yield SeenPoint(service, metric.name, _labels(seen.attributes), seen.count, buckets, traces)


def _labels(attributes: Iterator[object]) -> dict[str, str]:
    return {one.key: one.value.string_value for one in attributes}  # type: ignore[attr-defined]


@contextmanager
def otlp_sink() -> Iterator[OtlpSink]:
    """Listen for as long as the context lasts."""
    sink = OtlpSink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.take(self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A test's output is for its failures."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    sink.url = f"http://{LOOPBACK}:{server.server_port}"
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
