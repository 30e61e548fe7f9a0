"""Metrics of the live view. Labels: the log, and whether a slice was public or for a team; never a team's name."""

from dataclasses import dataclass

from prometheus_client import Counter, Histogram

_DELAYS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_SLICES = Counter("muster_view_slices", "Slices sent to dashboards.", ("log", "audience"))
_BYTES = Counter("muster_view_sent_bytes", "Bytes of the sent slices.", ("log",))
_DROPPED = Counter("muster_view_slices_dropped", "Slices dropped because the broker did not accept them.", ("log",))
_DELAY = Histogram(
    "muster_view_publish_delay_seconds",
    "Time from the broker's time stamp of a slice's oldest fact until the slice was sent, in seconds.",
    ("log",),
    buckets=_DELAYS_S,
)
_PASSED = Counter("muster_view_passed", "Messages of telemetry and output, by outcome.", ("log", "outcome"))


@dataclass(frozen=True)
class ViewMetrics:
    """The metrics of one log's view, with labels resolved."""

    public_slices: Counter
    team_slices: Counter
    sent_bytes: Counter
    dropped: Counter
    delay_s: Histogram


def view_metrics(stream: str) -> ViewMetrics:
    """Return the metrics of the view of `stream`."""
    return ViewMetrics(
        public_slices=_SLICES.labels(stream, "public"),
        team_slices=_SLICES.labels(stream, "team"),
        sent_bytes=_BYTES.labels(stream),
        dropped=_DROPPED.labels(stream),
        delay_s=_DELAY.labels(stream),
    )


@dataclass(frozen=True)
class PassedMetrics:
    """Counters of messages passed on beside a log: sent, dropped by a limit, or unreadable."""

    sent: Counter
    dropped: Counter
    unreadable: Counter


def passed_metrics(stream: str) -> PassedMetrics:
    """Return the counters of telemetry and output beside `stream`."""
    return PassedMetrics(*(_PASSED.labels(stream, outcome) for outcome in ("sent", "dropped", "unreadable")))
