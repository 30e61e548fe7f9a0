"""Log records through the OpenTelemetry SDK to an OTLP collector, from a thread of its own; the excess is dropped."""

import logging
from threading import Thread

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import TraceFlags

from muster.bus.limits import LOG_BATCH, LOG_QUEUE, SPAN_FLUSH_S
from muster.bus.logs import JsonLines
from muster.core.instant import NS_PER_S

_OWN = ("opentelemetry", "urllib3", "requests", "httpx")
"""Loggers of the exporter, not exported: an unavailable collector would cause records without end."""

_SEVERITIES = {
    logging.DEBUG: SeverityNumber.DEBUG,
    logging.INFO: SeverityNumber.INFO,
    logging.WARNING: SeverityNumber.WARN,
    logging.ERROR: SeverityNumber.ERROR,
    logging.CRITICAL: SeverityNumber.FATAL,
}


def to_collector(lines: JsonLines) -> "OtlpLogs":
    """Return a log handler that exports records by the standard OTEL_* variables."""
    return OtlpLogs(lines, exporter=OTLPLogExporter())


class OtlpLogs(logging.Handler):
    """Sends records with the job's trace and the fact's span. lines: determines the service and formats errors."""

    def __init__(self, lines: JsonLines, *, exporter: LogRecordExporter) -> None:
        super().__init__()
        self._lines = lines
        self._exporter = exporter
        self._processor = BatchLogRecordProcessor(exporter, max_queue_size=LOG_QUEUE, max_export_batch_size=LOG_BATCH)
        self._providers: dict[str, LoggerProvider] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Export a log record. Never waits for the collector."""
        if record.name.startswith(_OWN):
            return
        try:
            self._send(record)
        except Exception:  # noqa: BLE001 - what logging's own handlers do: a caller that logs must not fail
            self.handleError(record)

    def close(self) -> None:
        """Send what is left. A collector that does not answer is left alone after `SPAN_FLUSH_S`."""
        flushing = Thread(target=self._processor.shutdown, name="last log records", daemon=True)
        flushing.start()
        flushing.join(SPAN_FLUSH_S)
        super().close()

    def _send(self, record: logging.LogRecord) -> None:
        error = self._lines.error_of(record)
        trace, span = getattr(record, "trace_id", ""), getattr(record, "span_id", "")
        at = round(record.created * NS_PER_S)
        said = LogRecord(
            timestamp=at,
            observed_timestamp=at,
            trace_id=int(trace, 16) if trace else None,
            span_id=int(span, 16) if span else None,
            trace_flags=TraceFlags(TraceFlags.SAMPLED) if trace else None,
            severity_text=record.levelname,
            severity_number=_SEVERITIES.get(record.levelno, SeverityNumber.UNSPECIFIED),
            body=self._lines.message_of(record),
            attributes={"exception.stacktrace": error} if error else None,
        )
        self._provider(self._lines.service_of(record.name)).get_logger(record.name).emit(said)

    def _provider(self, service: str) -> LoggerProvider:
        """Return one provider per service, because the resource names the service of a record; they share the queue."""
        known = self._providers.get(service)
        if known is None:
            resource = Resource.create({"service.name": service if service == "muster" else f"muster-{service}"})
            known = self._providers[service] = LoggerProvider(resource=resource, shutdown_on_exit=False)
            known.add_log_record_processor(self._processor)
        return known
