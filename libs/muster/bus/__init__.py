"""NATS: streams, the reader and the appender of logs, leases, checkpoints, the shell of every core, settings, rights.

The only library that reads and writes logs. A service needs `service` (`CoreService`, `Hosted`, `Sink`,
`LeaderHandle`), `declaration`, `settings` and `clock`, and for its metrics `gauges`. Code that works on a log without a
shell uses `nats_log`, `ports`, `requests` and `jsapi`. A contract in pyproject.toml lists the internal modules.
"""
