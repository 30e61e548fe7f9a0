"""What every GPU does, and for whom: scrapes exporter pages, the only writer of TELEMETRY."""
