"""Prometheus metrics of the shells. Labels: service and log; never an id or a subject."""

from collections import Counter as Sums
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from muster.bus.ports import LogCounters

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter and histogram, which nothing here asks for

_LABELS = ("service", "log")
_DURATIONS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_FOLDED = Counter("muster_folded_facts", "Facts that a core folded.", _LABELS)
_APPENDED = Counter("muster_appended_facts", "Drafts that a core decided and the log stored.", _LABELS)
_LAG = Gauge("muster_log_lag_messages", "Messages in the log that the shell has yet to fold.", _LABELS)
_SEQ = Gauge("muster_folded_seq", "Sequence of the newest message folded.", _LABELS)
_LEADING = Gauge("muster_leading", "1 while this process leads the service.", _LABELS)
_TERM = Gauge("muster_term", "Term of the service's newest leader in this process.", _LABELS)
_POISONED = Gauge("muster_poisoned", "1 while the service stands still at a fact that its core cannot fold.", _LABELS)
_SKEW = Gauge("muster_clock_skew_seconds", "What the own clock is ahead of the broker's.", _LABELS)
_FOLD = Histogram("muster_fold_seconds", "Folding one batch.", _LABELS, buckets=_DURATIONS_S)
_DECIDE = Histogram("muster_decide_seconds", "One decision of a core.", _LABELS, buckets=_DURATIONS_S)
_APPEND = Histogram("muster_append_seconds", "Appending one decision.", _LABELS, buckets=_DURATIONS_S)
_OVERRUNS = Counter("muster_decide_overruns", "Decisions longer than the budget.", _LABELS)
_REFUSED = Counter("muster_append_refused", "Appends that were not stored, by reason.", (*_LABELS, "reason"))
_BACKOFF = Gauge("muster_append_backoff_seconds", "Wait before the next append after one that failed.", _LABELS)
_QUARANTINED = Counter(
    "muster_drafts_quarantined",
    "Drafts that a core decided, that the log refuses, and that are held back so that the others are stored.",
    (*_LABELS, "kind", "name", "reason"),
)
_IN_QUARANTINE = Gauge("muster_drafts_in_quarantine", "Drafts that are held back now.", _LABELS)
_RESTARTS = Counter("muster_service_restarts", "Recoveries after a failure.", _LABELS)
_CHECKPOINTS = Counter("muster_checkpoint_parts", "Parts of checkpoints, by outcome.", (*_LABELS, "outcome"))
_STORED = Gauge("muster_log_stored_bytes", "What the log holds.", ("log",))
_STORED_MAX = Gauge("muster_log_stored_bytes_max", "What the log may hold; it refuses more.", ("log",))
_WAITING = Gauge(
    "muster_log_source_waiting_messages", "Messages of another stream that are not in the log yet.", ("log", "source")
)
_MESSAGES = Gauge("muster_stream_messages", "Messages that the stream holds.", ("stream",))
_LAST_SEQ = Gauge("muster_stream_last_seq", "Sequence of the stream's newest message.", ("stream",))
_BYTES = Gauge("muster_stream_bytes", "What the stream holds.", ("stream",))
_BYTES_MAX = Gauge("muster_stream_bytes_max", "What the stream may hold.", ("stream",))
_CONSUMER = ("stream", "consumer")
_PENDING = Gauge("muster_consumer_pending_messages", "Not yet delivered to a durable consumer.", _CONSUMER)
_UNACKED = Gauge(
    "muster_consumer_unacked_messages", "Delivered to a durable consumer, not yet acknowledged.", _CONSUMER
)
_REDELIVERED = Gauge("muster_consumer_redelivered_messages", "Of the unacknowledged, delivered again.", _CONSUMER)
_QUERIES = Counter("muster_queries", "Questions, by name and outcome.", ("service", "query", "outcome"))
_QUERY_S = Histogram("muster_query_seconds", "Answering one question.", ("service", "query"), buckets=_DURATIONS_S)
_LOOP_LATE = Histogram(
    "muster_loop_late_seconds",
    "What the process's event loop comes late to a timer, once a second.",
    buckets=_DURATIONS_S,
)


@dataclass(frozen=True)
class ShellMetrics:
    """The metrics of one shell, labels bound once."""

    folded: Counter
    appended: Counter
    lag: Gauge
    seq: Gauge
    leading: Gauge
    term: Gauge
    poisoned: Gauge
    skew_s: Gauge
    fold_s: Histogram
    decide_s: Histogram
    append_s: Histogram
    overruns: Counter
    backoff_s: Gauge
    restarts: Counter
    in_quarantine: Gauge
    _refused: tuple[Counter, Counter, Counter]
    _parts: dict[str, Counter]
    _labels: tuple[str, str]

    def quarantined(self, *, kind: str, name: str, reason: str) -> None:
        """Count a draft that is held back because the log refuses it."""
        _QUARANTINED.labels(*self._labels, kind, name, reason).inc()

    def refused(self, *, stale: bool = False, full: bool = False) -> None:
        """Count an append that was not stored: stale fence, full log, else no answer."""
        self._refused[0 if stale else 1 if full else 2].inc()

    def part(self, outcome: str) -> None:
        """Count a part of a checkpoint: `uploaded`, `failed` or `skipped`."""
        self._parts[outcome].inc()


def shell_metrics(service: str, log: str) -> ShellMetrics:
    """Return the metrics of the shell of `service` on the stream `log`."""
    labels = (service, log)
    reasons = [_REFUSED.labels(*labels, reason) for reason in ("stale", "full", "unavailable")]
    return ShellMetrics(
        folded=_FOLDED.labels(*labels),
        appended=_APPENDED.labels(*labels),
        lag=_LAG.labels(*labels),
        seq=_SEQ.labels(*labels),
        leading=_LEADING.labels(*labels),
        term=_TERM.labels(*labels),
        poisoned=_POISONED.labels(*labels),
        skew_s=_SKEW.labels(*labels),
        fold_s=_FOLD.labels(*labels),
        decide_s=_DECIDE.labels(*labels),
        append_s=_APPEND.labels(*labels),
        overruns=_OVERRUNS.labels(*labels),
        backoff_s=_BACKOFF.labels(*labels),
        restarts=_RESTARTS.labels(*labels),
        in_quarantine=_IN_QUARANTINE.labels(*labels),
        _labels=labels,
        _refused=(reasons[0], reasons[1], reasons[2]),
        _parts={outcome: _CHECKPOINTS.labels(*labels, outcome) for outcome in ("uploaded", "failed", "skipped")},
    )


def count_query(service: str, query: str, outcome: str) -> None:
    """Count a question: `answered`, `problem`, `silent` (not leading) or `forged` (a reply subject not of a client)."""
    _QUERIES.labels(service, query, outcome).inc()


def time_query(service: str, query: str, took_s: float) -> None:
    """Record a query that was answered, with an answer or a problem."""
    _QUERY_S.labels(service, query).observe(took_s)


def loop_was_late(late_s: float) -> None:
    """Record the delay of the event loop for one timer."""
    _LOOP_LATE.observe(late_s)


def show_stream(stream: str, *, messages: int, last_seq: int, stored_bytes: int, bytes_max: int) -> None:
    """Show the contents of a stream, whether it is a log or not."""
    _MESSAGES.labels(stream).set(messages)
    _LAST_SEQ.labels(stream).set(last_seq)
    _BYTES.labels(stream).set(stored_bytes)
    _BYTES_MAX.labels(stream).set(bytes_max)


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """Message counts of one durable consumer."""

    pending: int
    unacked: int
    redelivered: int


class ConsumerGauges:
    """The durable consumers of one stream; the samples of deleted consumers are removed."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._shown: set[str] = set()

    def show(self, consumers: Mapping[str, ConsumerFigures]) -> None:
        """Show all current consumers, by name."""
        for gone in self._shown - consumers.keys():
            for gauge in (_PENDING, _UNACKED, _REDELIVERED):
                gauge.remove(self._stream, gone)
        self._shown = set(consumers)
        for name, figures in consumers.items():
            _PENDING.labels(self._stream, name).set(figures.pending)
            _UNACKED.labels(self._stream, name).set(figures.unacked)
            _REDELIVERED.labels(self._stream, name).set(figures.redelivered)


def show_store(log: str, *, stored_bytes: int, bytes_max: int, waiting: Mapping[str, int]) -> None:
    """Show how full a log is, and how many messages of each source wait."""
    _STORED.labels(log).set(stored_bytes)
    _STORED_MAX.labels(log).set(bytes_max)
    for source, messages in waiting.items():
        _WAITING.labels(log, source).set(messages)


class LogCollector(Collector):
    """Exports what the logs of this process count of themselves, by stream."""

    def __init__(self) -> None:
        self._counters: list[tuple[str, LogCounters]] = []

    @contextmanager
    def exporting(self, stream: str, counters: LogCounters) -> Iterator[None]:
        """Export these counters for as long as the context lasts."""
        entry = (stream, counters)
        self._counters.append(entry)
        try:
            yield
        finally:
            self._counters = [one for one in self._counters if one is not entry]

    @override
    def collect(self) -> Iterator[CounterMetricFamily]:
        for field in fields(LogCounters):
            sums: Sums[str] = Sums()
            for stream, counters in self._counters:
                sums[stream] += asdict(counters)[field.name]
            family = CounterMetricFamily(f"muster_log_{field.name}", "See muster.bus.ports.", labels=("log",))
            for stream, count in sums.items():
                family.add_metric((stream,), count)
            yield family


LOGS = LogCollector()
REGISTRY.register(LOGS)

_exported: list[CollectorRegistry] = [REGISTRY]


def registries() -> tuple[CollectorRegistry, ...]:
    """Return all registries of this process: the shared one, and those of services with their own metrics page."""
    return tuple(_exported)


@contextmanager
def also_exporting(registry: CollectorRegistry) -> Iterator[None]:
    """Export this registry over OTLP too, for as long as the context lasts. Its page is its owner's."""
    _exported.append(registry)
    try:
        yield
    finally:
        _exported.remove(registry)
