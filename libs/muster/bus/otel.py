"""Spans through the OpenTelemetry SDK to an OTLP collector, sent from a thread of its own; the excess is dropped.

A fact's own span has the ids that stand in the fact: the job's trace id, and a span id that is a hash of the fact's id,
so `muster trace` and the collector show the same tree. It links to the span of every cause; of a single cause it is
also the child, so that viewers draw a tree (the conventions allow a parent for single messages only). Names use the
subject template, never an id. All slow and failed spans are kept, of the rest one trace in `SPANS_ONE_IN`, or as
OTEL_TRACES_SAMPLER_ARG says.
"""

import os
from collections.abc import Iterable
from threading import Thread

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from muster.bus.limits import SPAN_BATCH, SPAN_FLUSH_S, SPAN_QUEUE, SPAN_SLOW_S, SPANS_ONE_IN
from muster.bus.tracing import sampled_one_in
from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.schemas.ids import span_id

_TRACEPARENT_PARTS = 4
_OPERATION_TYPES = {"fold": "process", "decide": "process", "send": "send", "create": "create"}


def to_collector(service: str, *, scope: str, template: str) -> "OtelTracing":
    """Return tracing of `service` that exports spans by the standard OTEL_* variables."""
    one_in = sampled_one_in(os.environ)
    return OtelTracing(service, scope=scope, template=template, exporter=OTLPSpanExporter(), one_in=one_in)


class OtelTracing:
    """`tracing.Tracing` over the SDK. one_in: of the spans that are neither slow nor failed."""

    enabled = True

    def __init__(
        self, service: str, *, scope: str, template: str, exporter: SpanExporter, one_in: int = SPANS_ONE_IN
    ) -> None:
        self._service = service
        self._scope = scope
        self._template = template
        self._one_in = one_in
        self._count = 0
        self._ids = _PresetIds()
        resource = Resource.create({"service.name": f"muster-{service}", "service.namespace": scope})
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=SPAN_QUEUE, max_export_batch_size=SPAN_BATCH)
        )
        self._tracer = self._provider.get_tracer("muster.bus")

    def work(self, operation: str, *, start_ns: int, end_ns: int, messages: int, error: str = "") -> None:
        """Record the span of a unit of work."""
        self._count += 1
        slow = end_ns - start_ns > SPAN_SLOW_S * NS_PER_S
        if not (slow or error or self._count % self._one_in == 0):
            return
        span = self._tracer.start_span(
            f"{operation} {self._template}",
            kind=SpanKind.PRODUCER if operation == "send" else SpanKind.CONSUMER,
            start_time=start_ns,
            attributes=self._attributes(operation) | {"messaging.batch.message_count": messages},
        )
        if error:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_ns)

    def own_facts(self, facts: Iterable[Fact], *, start_ns: int) -> None:
        """Record the spans of own facts."""
        for fact in facts:
            slow = fact.time - start_ns > SPAN_SLOW_S * NS_PER_S
            trace = _trace_id(fact.trace)
            if trace and (slow or fact.name == "failed" or trace % self._one_in == 0):
                self._own_fact(fact, trace, start_ns)

    def close(self) -> None:
        """Export the remaining spans, and stop; give up after `SPAN_FLUSH_S` without an answer."""
        flushing = Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        flushing.start()
        flushing.join(SPAN_FLUSH_S)

    def _own_fact(self, fact: Fact, trace: int, start_ns: int) -> None:
        causes = [_context(trace, int(span_id(cause), 16)) for cause in fact.causes]
        parent = set_span_in_context(NonRecordingSpan(causes[0]), Context()) if len(causes) == 1 else Context()
        links: list[Link] = [Link(cause) for cause in causes]
        self._ids.preset(trace, int(span_id(fact.id), 16))
        span = self._tracer.start_span(
            f"create {_template_of(fact)}",
            context=parent,
            kind=SpanKind.PRODUCER,
            links=links,
            start_time=min(start_ns, fact.time),
            attributes=self._attributes("create") | {"messaging.message.id": fact.id, "muster.seq": fact.seq},
        )
        self._ids.preset(0, 0)  # a child takes its parent's trace id and leaves ours unasked for
        if fact.name == "failed":
            span.set_status(Status(StatusCode.ERROR))
        span.end(fact.time)

    def _attributes(self, operation: str) -> dict[str, str | int]:
        return {
            "messaging.system": "nats",
            "messaging.operation.name": operation,
            "messaging.operation.type": _OPERATION_TYPES[operation],
            "messaging.destination.template": self._template,
            "messaging.consumer.group.name": self._service,
            "muster.scope": self._scope,
        }


class _PresetIds(IdGenerator):
    """Id generator of the SDK that returns preset ids of facts."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._trace = 0
        self._span = 0

    def preset(self, trace: int, span: int) -> None:
        self._trace, self._span = trace, span

    def generate_span_id(self) -> int:
        span, self._span = self._span, 0
        return span or self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        trace, self._trace = self._trace, 0
        return trace or self._random.generate_trace_id()

    def is_trace_id_random(self) -> bool:
        """Trace ids of jobs are hashes, not random."""
        return False


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _trace_id(traceparent: str) -> int:
    """Return the trace id in a W3C traceparent, 0 if there is none."""
    parts = traceparent.split("-")
    return int(parts[1], 16) if len(parts) == _TRACEPARENT_PARTS else 0


def _template_of(fact: Fact) -> str:
    return f"muster.{{scope}}.{fact.writer}.{fact.kind}.{{id}}.{fact.name}"
