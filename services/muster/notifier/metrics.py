"""Prometheus metrics of webhooks. Labels: the webhook's name and the log; never an address or an id."""

from prometheus_client import Counter, Gauge, Histogram

DELIVERIES = Counter("muster_webhook_deliveries", "Events that are done with, by outcome.", ("webhook", "outcome"))
"""outcome: delivered, dead, lost (dead, and its letter could not be kept), foreign (of a job that its cluster was not
given), not-for-it, unknown-job, unreadable.
"""
ATTEMPTS = Counter("muster_webhook_attempts", "Requests, by what was answered.", ("webhook", "answer"))
"""answer: 2xx, 3xx, 4xx, 5xx, or none."""
SECONDS = Histogram(
    "muster_webhook_attempt_seconds",
    "One request.",
    ("webhook",),
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
DELAY = Histogram(
    "muster_webhook_delay_seconds",
    "From the event to its delivery.",
    ("webhook",),
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0),
)
WAITING = Gauge("muster_webhook_waiting_events", "Events in the log that are not done with.", ("webhook", "log"))
STOPPED = Gauge("muster_webhook_stopped", "1 while nothing is sent, for the receiver answered 410.", ("webhook",))


def answer_class(status: int) -> str:
    """`2xx` and so on; `none` if no answer came."""
    return f"{status // 100}xx" if status else "none"
