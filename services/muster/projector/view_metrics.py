"""Metrics of the live view. Labels: the log, and whether a slice was for everybody or for a team; never a team."""

from dataclasses import dataclass

from prometheus_client import Counter, Histogram

_DELAYS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_SLICES = Counter("muster_view_slices", "Slices that were sent to dashboards.", ("log", "audience"))
_BYTES = Counter("muster_view_sent_bytes", "Bytes of the slices that were sent.", ("log",))
_DROPPED = Counter("muster_view_slices_dropped", "Slices not sent since the broker did not take them.", ("log",))
_DELAY = Histogram(
    "muster_view_publish_delay_seconds",
    "From the broker's time-stamp of a slice's oldest fact until the slice was sent.",
    ("log",),
    buckets=_DELAYS_S,
)
_PASSED = Counter("muster_view_passed", "Messages of telemetry and output, by what became of them.", ("log", "outcome"))


@dataclass(frozen=True)
class ViewMetrics:
    """The metrics of one log's view, labels bound once."""

    public_slices: Counter
    team_slices: Counter
    sent_bytes: Counter
    dropped: Counter
    delay_s: Histogram


def view_metrics(stream: str) -> ViewMetrics:
    """The metrics of the view of `stream`."""
    return ViewMetrics(
        public_slices=_SLICES.labels(stream, "public"),
        team_slices=_SLICES.labels(stream, "team"),
        sent_bytes=_BYTES.labels(stream),
        dropped=_DROPPED.labels(stream),
        delay_s=_DELAY.labels(stream),
    )


@dataclass(frozen=True)
class PassedMetrics:
    """What is passed on beside a log: sent, dropped by a bound, or not to be read."""

    sent: Counter
    dropped: Counter
    unreadable: Counter


def passed_metrics(stream: str) -> PassedMetrics:
    """The metrics of telemetry and output beside `stream`."""
    return PassedMetrics(*(_PASSED.labels(stream, outcome) for outcome in ("sent", "dropped", "unreadable")))
