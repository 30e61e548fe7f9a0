"""Every bound of the shell, the shared reader, leases, checkpoints, queries and tracing, in one place."""

from dataclasses import dataclass

YOUNG_OBJECTS = 50_000
"""New objects per young collection of the cycle collector. Importing makes some hundred thousand objects, and no
garbage: with the interpreter's 700 a tenth of the start of a command was collections."""


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """Limits of one shell.

    read_messages: of one read. idle_s: longest wait for facts. wake_s_min: shortest wait, so that a core that always
    wants to wake does not spin. decide_s: the core's time budget; longer is counted. backoff_s: first and longest wait
    after an append that was not stored. stale_appends_max: in a row before a new term begins. checkpoint_backlog:
    snapshots that wait for their upload. settle_s: time to finish them when a service ends. quarantine_max: refused
    drafts held back at a time, retried after quarantine_wait_s (first and longest), one every quarantine_pace_s.
    quarantine_rest_s: wait if nothing else was decided. letters_max: their dead letters written in one turn.
    """

    read_messages: int = 1000
    idle_s: float = 1.0
    wake_s_min: float = 0.001
    decide_s: float = 0.05
    backoff_s: tuple[float, float] = (0.05, 2.0)
    stale_appends_max: int = 5
    fence_renewal_s: float = 3600.0
    checkpoint_backlog: int = 2
    checkpoint_timeout_s: float = 60.0
    settle_s: float = 2.0
    quarantine_max: int = 4096
    quarantine_wait_s: tuple[float, float] = (10.0, 300.0)
    quarantine_pace_s: float = 1.0
    quarantine_rest_s: float = 0.05
    letters_max: int = 16


HUB_READ_MESSAGES = 1000
HUB_READ_S = 1.0
HUB_FACTS_MAX = 10_000  # waiting for one shell; the slowest one holds the shared reader back

LEASE_POLLS_PER_TTL = 10
LEASE_RENEWALS_PER_TTL = 4
LEASE_JOIN_S = 5.0  # the thread's end
LEASE_TOLD_S = 10.0  # between two words on why no lease can be taken
LEASE_CALL_ASKS_MAX = 4  # requests of one call: a key that was deleted is looked up before it is taken anew

CHECKPOINTS_KEPT = 2
POINTER_ATTEMPTS = 16  # compare-and-set races between the services of one log

RESTART_BACKOFF_S = (0.25, 10.0)  # first and longest wait before a failed service recovers anew
RESTART_CALM_S = 60.0  # after so long without failure the wait is the first one again
VOIDED_POLL_S = 2.0  # how often a stopped service looks whether an operator let it go on
SHUTDOWN_S = 6.0
SHUTDOWN_TRIES = 2

STORE_LOOK_S = 5.0  # between two looks at how full the logs are
SILENCE_S_MAX = 5.0  # of connections to the HTTP server for metrics and health

QUERY_GRACE_S = 2.0
QUERY_BYTES_MAX = 1024 * 1024 - 4096  # of an answer as it is sent: the broker's payload limit, less headers
QUERY_WHOLE_BYTES_MAX = 16 * 1024 * 1024  # of one that was packed, unpacked: about 40,000 devices
QUERY_PACKING = 1  # zlib's level: JSON of a fleet shrinks to a tenth with the cheapest
CONNECT_TIMEOUT_S = 5
RECONNECT_WAIT_S = 0.2
PING_INTERVAL_S = 10
PINGS_OUTSTANDING = 2
PENDING_BYTES = 64 * 1024 * 1024  # of one connection's outgoing buffer

SPANS_ONE_IN = 100  # of those that are neither slow nor failed
SPAN_SLOW_S = 0.1
SPAN_QUEUE = 4096
SPAN_BATCH = 512
SPAN_FLUSH_S = 1.0  # for what is left when a service ends

LOG_MESSAGE_CHARACTERS_MAX = 16_384  # of one line's message, and of its traceback's end
LOG_QUEUE = 2048  # records that wait for the collector
LOG_BATCH = 256
METRICS_PUSH_S = 60.0  # between two exports of metrics over OTLP, unless OTEL_METRIC_EXPORT_INTERVAL says
METRICS_PUSH_TIMEOUT_S = 10.0
LOOP_LOOK_S = 1.0  # between two looks at how late the event loop is
CONSUMERS_MAX = 256  # of one stream that are looked at: one page of the broker's list
