"""Traces of a shell's work, if OTEL_EXPORTER_OTLP_ENDPOINT is set; else nothing is collected or imported."""

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from muster.bus.limits import SPANS_ONE_IN
from muster.core.fact import Fact

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
RATIO_VARIABLE = "OTEL_TRACES_SAMPLER_ARG"
_TRACE = slice(3, 35)
_SPAN = slice(36, 52)
_CHARACTERS = 55


def sends(signal: str, environment: Mapping[str, str]) -> bool:
    """Return whether `traces`, `metrics` or `logs` go to a collector, by the standard variables of the SDK."""
    return bool(environment.get(ENDPOINT_VARIABLE)) and environment.get(f"OTEL_{signal.upper()}_EXPORTER") != "none"


def sampled_one_in(environment: Mapping[str, str]) -> int:
    """Return n if one in n traces is sent whole: from OTEL_TRACES_SAMPLER_ARG, a ratio as the SDK's samplers take it.

    Raises ValueError if it is not a ratio above 0, up to 1.
    """
    said = environment.get(RATIO_VARIABLE, "")
    if not said:
        return SPANS_ONE_IN
    ratio = float(said)
    if not 0 < ratio <= 1:
        raise ValueError(f"{RATIO_VARIABLE}: {said} is not above 0 and at most 1")
    return round(1 / ratio)


class Tracing(Protocol):
    """Interface for the traces of a shell. enabled: False if traces are discarded, so that callers collect nothing."""

    enabled: bool

    def work(self, operation: str, *, start_ns: int, end_ns: int, messages: int, error: str = "") -> None:
        """One batch folded, one decision, one append: wall clock, in nanoseconds."""
        ...

    def own_facts(self, facts: Iterable[Fact], *, start_ns: int) -> None:
        """Facts of this service that were just folded; they were decided from `start_ns` on."""
        ...

    def close(self) -> None:
        """Send what is left. Blocks, for a bounded time: not on the event loop."""
        ...


class NoTracing:
    """Tracing without a collector."""

    enabled = False

    def work(self, operation: str, *, start_ns: int, end_ns: int, messages: int, error: str = "") -> None:
        """Do nothing."""

    def own_facts(self, facts: Iterable[Fact], *, start_ns: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def make_tracing(service: str, *, scope: str, template: str) -> Tracing:
    """Spans of `service` if a collector is set. template: of the log's subjects, in span names."""
    if not sends("traces", os.environ):
        return NoTracing()
    tracing: Tracing = importlib.import_module("muster.bus.otel").to_collector(service, scope=scope, template=template)
    return tracing


# A W3C traceparent is `00-<trace id>-<span id>-<flags>`.


def about(traceparent: str) -> dict[str, str]:
    """Return `extra=` of a log line about the job or fact of this traceparent; empty if there is none."""
    if len(traceparent) != _CHARACTERS:
        return {}
    return {"trace_id": traceparent[_TRACE], "span_id": traceparent[_SPAN]}


class Exemplars:
    """Which samples of a metric lead to a job's trace: those whose trace a collector was sent whole, and slow ones.

    one_in: of so many traces one is sent whole (`tracing.sampled_one_in`), by the trace id, so that all services agree.
    """

    def __init__(self, one_in: int) -> None:
        assert one_in >= 1, "one in one is all"
        self._one_in = one_in

    def of(self, traceparent: str, *, slow: bool = False) -> dict[str, str] | None:
        """Return the exemplar of a sample about this job; None if there is no trace, or it need not be found."""
        if len(traceparent) != _CHARACTERS:
            return None
        if slow or int(traceparent[_TRACE], 16) % self._one_in == 0:
            return {"trace_id": traceparent[_TRACE], "span_id": traceparent[_SPAN]}
        return None
