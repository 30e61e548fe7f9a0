"""Prometheus metrics of calls to fabrics. Labels: fabric, which call, what came of it; never a device or machine."""

from prometheus_client import Counter, Gauge, Histogram

from muster.composer.core.fabrics import AttachCall, Call, CallWentWrong, Outcome

_DURATIONS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)

_CALLS = Counter("muster_fabric_calls", "Calls to a fabric's manager, by outcome.", ("fabric", "call", "outcome"))
_CALL_S = Histogram(
    "muster_fabric_call_seconds", "Calls that did what they should.", ("fabric", "call"), buckets=_DURATIONS_S
)
_RUNNING = Gauge("muster_fabric_calls_running", "Calls under way.", ("fabric",))


def call_over(call: Call, outcome: Outcome) -> None:
    """A call was made, or came too late to be made."""
    what = "attach" if isinstance(call, AttachCall) else "detach"
    if isinstance(outcome, CallWentWrong):
        _CALLS.labels(call.fabric, what, outcome.failure.value).inc()
    else:
        _CALLS.labels(call.fabric, what, "done").inc()
        _CALL_S.labels(call.fabric, what).observe(outcome.took_s)


def running(fabric: str, calls: int) -> None:
    """So many are under way now."""
    _RUNNING.labels(fabric).set(calls)
