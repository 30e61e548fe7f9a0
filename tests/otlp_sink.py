"""A collector of spans for tests: takes OTLP over HTTP on loopback and keeps what came."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

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


@dataclass
class OtlpSink:
    """Where it listens, and what came so far."""

    url: str = ""
    _spans: list[SeenSpan] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def spans(self) -> list[SeenSpan]:
        with self._lock:
            return list(self._spans)

    def take(self, body: bytes) -> None:
        """One export request."""
        with self._lock:
            self._spans += _spans(ExportTraceServiceRequest.FromString(body))


def _spans(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    for of_resource in request.resource_spans:
        attributes = {one.key: one.value.string_value for one in of_resource.resource.attributes}
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield SeenSpan(
                    service=attributes["service.name"],
                    name=span.name,
                    trace=span.trace_id.hex(),
                    span=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    links=tuple(link.span_id.hex() for link in span.links),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                )


@contextmanager
def otlp_sink() -> Iterator[OtlpSink]:
    """Listen for as long as the context lasts."""
    sink = OtlpSink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
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
