"""Measuring parameters of the telemetry core."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """The part of the settings by the same names; see `TelemetrySettings`."""

    interval_s: float = 10.0
    idle_below_pct: float = 1.0
    idle_after_s: float = 600.0
    report_s: float = 600.0

    @property
    def gap_s_max(self) -> float:
        """Return the maximum time before a reading that it counts for; a longer gap is not measured."""
        return 2.5 * self.interval_s
