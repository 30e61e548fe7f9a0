"""Every bound and size of the demonstration, in one place."""

SECRETS, SECRET_BYTES = 150, 64 * 1024
"""What a LIST has to send: 150 secrets of 64 KiB, 12.9 MB as JSON."""
BURST = 50
"""LISTs at a time, each of a client with a connection of its own."""
WRITES = 16
"""Objects that are made at a time."""
REQUEST_S_MAX = 120.0
"""One LIST of a burst: an API server without streaming has to encode fifty of them."""
POLL_S = 0.1
"""Between two looks at what an API server does."""
READ_BYTES = 256 * 1024
CALM_S = 5.0
"""After a burst, before memory is called idle again."""
SEEN_S_MAX = 30.0
"""For the guard to see what it shall see."""

POLLS_PER_S = 10.0
"""LISTs of the client that lists too much."""
POLLS_S = 10.0
POLLED_SECRETS = (40, 16 * 1024)
"""How many, of how many bytes."""
AUDIT_WAIT_S = 1.5
"""API servers send their events in batches."""
WORKLOAD_SECRETS, WORKLOAD_NODES, WORKLOAD_PODS = 60, 5, 10
"""The workload with its credentials in many secrets."""

SKEW_CLIENTS = 6
"""Clients of each kind behind a load balancer, each with one connection."""
SKEW_REQUESTS_PER_S = 20.0
"""Of each client: goaway-chance acts per request."""
SKEW_LIST_S = 3.0
"""Between two LISTs of each."""
SKEW_SECRETS = (150, 64 * 1024)
"""How many, of how many bytes."""
SKEW_SPREAD_S = 5.0
"""Before the first LISTs: so long connections have to spread."""
SKEW_S = 20.0
"""How long the clients run after an API server was restarted."""
GOAWAY_CHANCE = 0.02
"""The largest that an API server takes; with 0.001, which is advised, it takes twenty times as many requests."""
RENEWAL_S = 3.0
"""Age at which a client of ours renews its connections; 600 by default."""
NEVER_S = 86_400.0
STOP_S = 10.0
"""For a helper process to begin or end."""

GOGC_ADVISED, GOMEMLIMIT_ADVISED = "50", "900MiB"
"""Compared with Go's default, 100 and none; the limit as if a container had 1 GiB."""
GC_ROUNDS, GC_LISTS = 3, 16
"""Bursts of LISTs, in each of which garbage gathers."""
