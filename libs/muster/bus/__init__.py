"""NATS: streams, log reader and appender, leases, checkpoints, the service shell, tracing."""
