"""What a shell tells of its work, if OTEL_EXPORTER_OTLP_ENDPOINT is set; else nothing is gathered nor imported."""

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from muster.bus.limits import SPANS_ONE_IN
from muster.core.fact import Fact

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
RATIO_VARIABLE = "OTEL_TRACES_SAMPLER_ARG"


def sends(signal: str, environment: Mapping[str, str]) -> bool:
    """Whether `traces`, `metrics` or `logs` go to a collector: by the standard variables, as the SDK reads them."""
    return bool(environment.get(ENDPOINT_VARIABLE)) and environment.get(f"OTEL_{signal.upper()}_EXPORTER") != "none"


def sampled_one_in(environment: Mapping[str, str]) -> int:
    """Of so many traces one is sent whole: by OTEL_TRACES_SAMPLER_ARG, a ratio as the SDK's samplers take it.

    Raises ValueError for what is no ratio above 0, up to 1.
    """
    said = environment.get(RATIO_VARIABLE, "")
    if not said:
        return SPANS_ONE_IN
    ratio = float(said)
    if not 0 < ratio <= 1:
        raise ValueError(f"{RATIO_VARIABLE}: {said} is not above 0 and at most 1")
    return round(1 / ratio)


class Tracing(Protocol):
    """What a shell tells of its work. enabled: False if telling is wasted, so callers need not gather anything."""

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
    """No collector is set."""

    enabled = False

    def work(self, operation: str, *, start_ns: int, end_ns: int, messages: int, error: str = "") -> None:
        """Nothing."""

    def own_facts(self, facts: Iterable[Fact], *, start_ns: int) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def make_tracing(service: str, *, scope: str, template: str) -> Tracing:
    """Spans of `service` if a collector is set. template: of the log's subjects, in span names."""
    if not sends("traces", os.environ):
        return NoTracing()
    tracing: Tracing = importlib.import_module("muster.bus.otel").to_collector(service, scope=scope, template=template)
    return tracing
