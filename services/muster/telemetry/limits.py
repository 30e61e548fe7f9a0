"""Every bound of the telemetry service's I/O, in one place."""

SCRAPES_MAX = 512
"""Concurrent pages, each on its own connection: 1,750 nodes of which one in three hangs."""
CATCH_UP_S = 2.0
"""Turns that came late are made up for, back to this; a process that was held up for longer lets the rest go."""
CONNECT_S_MAX = 2.0
"""Timeout of a connection: a node that does not accept one in this time is down, not hung."""
KEPT_S = 2.0
"""An idle connection is closed after this time."""
DNS_S = 60
"""Time for which a name's address is cached."""
PAGE_BYTES_MAX = 8 * 1024 * 1024
"""Maximum size of a page: 64 GPUs with every counter that exists have 2 MiB."""
SAMPLE_BYTES_MAX = 512 * 1024
"""Maximum size of a message, half of the broker's: 64 GPUs with every counter have 64 KiB."""
CHUNK_BYTES = 256 * 1024
STOP_S_MAX = 5.0
"""Timeout for the pages under way when the term ends."""
TEAMS_SHOWN = 50
QUEUES_SHOWN = 50
MODELS_SHOWN = 32
JOBS_SHOWN = 20
"""Jobs that have metrics of their own: those with most GPUs."""
