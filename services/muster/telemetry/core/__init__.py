"""The pure part of the telemetry service."""
