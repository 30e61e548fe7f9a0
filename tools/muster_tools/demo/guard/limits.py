"""Every bound and size of the demonstration, in one place."""

SECRETS, SECRET_BYTES = 150, 64 * 1024
"""Data of one LIST: 150 secrets of 64 KiB, 12.9 MB as JSON."""
BURST = 50
"""Number of concurrent LISTs, each of a client with its own connection."""
WRITES = 16
"""Number of objects created concurrently."""
REQUEST_S_MAX = 120.0
"""Time-out of one LIST of a burst: an API server without streaming encodes fifty of them."""
POLL_S = 0.1
"""Interval between two samples of an API server."""
READ_BYTES = 256 * 1024
CALM_S = 5.0
"""Pause after a burst before memory counts as idle."""
SEEN_S_MAX = 30.0
"""Maximum time for the guard to detect a condition."""

POLLS_PER_S = 10.0
"""LISTs per second of the excessive client."""
POLLS_S = 10.0
POLLED_SECRETS = (40, 16 * 1024)
"""Number of secrets, and their size in bytes."""
AUDIT_WAIT_S = 1.5
"""Time to wait for audit events, which API servers send in batches."""
WORKLOAD_SECRETS, WORKLOAD_NODES, WORKLOAD_PODS = 60, 5, 10
"""The workload with its credentials in many secrets."""

SKEW_CLIENTS = 6
"""Number of clients of each kind behind a load balancer, each with one connection."""
SKEW_REQUESTS_PER_S = 20.0
"""Requests per second of each client: goaway-chance applies to each request."""
SKEW_LIST_S = 3.0
"""Interval between two LISTs of each client."""
SKEW_SECRETS = (150, 64 * 1024)
"""Number of secrets, and their size in bytes."""
SKEW_SPREAD_S = 5.0
"""Time before the first LISTs, in which connections spread."""
SKEW_S = 20.0
"""How long the clients run after an API server was restarted."""
GOAWAY_CHANCE = 0.02
"""The maximum that an API server accepts; the recommended 0.001 needs twenty times as many requests."""
RENEWAL_S = 3.0
"""Age at which Muster's client renews its connections; 600 by default."""
NEVER_S = 86_400.0
STOP_S = 10.0
"""Time for a helper process to start or end."""

GOGC_ADVISED, GOMEMLIMIT_ADVISED = "50", "900MiB"
"""Compared with Go's defaults, 100 and no limit; the limit is for a container with 1 GiB."""
GC_ROUNDS, GC_LISTS = 3, 16
"""Bursts of LISTs, each of which produces garbage."""
