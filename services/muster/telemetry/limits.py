"""Every bound of the telemetry service's I/O, in one place."""

SCRAPES_MAX = 512
"""Pages that are on their way at once, each on a connection of its own: 1,750 nodes of which one in three hangs."""
CATCH_UP_S = 2.0
"""Turns that came late are made up for, back to this; a process that was held up for longer lets the rest go."""
CONNECT_S_MAX = 2.0
"""For a connection alone: a node that does not even take one in this time is down, not hung."""
KEPT_S = 2.0
"""An idle connection is closed after this time."""
DNS_S = 60
"""For which a name's address is remembered."""
PAGE_BYTES_MAX = 8 * 1024 * 1024
"""One page: 64 GPUs with every counter that there is have 2 MiB."""
SAMPLE_BYTES_MAX = 512 * 1024
"""One message, half of what the broker takes: that of 64 GPUs with every counter has 64 KiB."""
CHUNK_BYTES = 256 * 1024
STOP_S_MAX = 5.0
"""For pages that are on their way when the term ends."""
TEAMS_SHOWN = 50
QUEUES_SHOWN = 50
MODELS_SHOWN = 32
JOBS_SHOWN = 20
"""Jobs that have metrics of their own: those with most GPUs."""
