"""The port between the telemetry service's fold and what is measured: reports of use come out."""

from collections.abc import Iterator
from typing import Protocol

from muster.core import Instant
from muster.schemas.facts.telemetry import JobUseReported


class Meters(Protocol):
    """Sums up what was measured of jobs while the service leads."""

    def due(self, now: Instant) -> Iterator[tuple[str, JobUseReported]]:
        """What is to be said of jobs, and is not yet acknowledged; bounded."""
        ...

    def acknowledge(self, job_id: str, told: JobUseReported, at: Instant) -> None:
        """It was said."""
        ...

    def ended(self, job_id: str) -> None:
        """The job is over: what was measured is its last word."""
        ...

    def next_due(self) -> Instant | None:
        """When `due` could answer differently by time alone."""
        ...


class NoMeters:
    """Implements `Meters` where nothing is measured."""

    def due(self, now: Instant) -> Iterator[tuple[str, JobUseReported]]:  # noqa: ARG002 - the port
        """See `Meters`."""
        yield from ()

    def acknowledge(self, job_id: str, told: JobUseReported, at: Instant) -> None:
        """See `Meters`."""

    def ended(self, job_id: str) -> None:
        """See `Meters`."""

    def next_due(self) -> Instant | None:
        """See `Meters`."""
        return None
