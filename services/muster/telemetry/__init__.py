"""The telemetry service: scrapes exporter pages for the activity of GPUs and jobs; the only writer of TELEMETRY."""
