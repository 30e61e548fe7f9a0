"""Every bound of the guard's I/O, in one place."""

SCRAPE_S_MAX = 10.0
"""To read the metrics of one API server."""
DUMP_S = 2.0
"""Between two dumps of the requests in flight, where no audit webhook reports clients."""
DUMP_S_MAX = 3.0
"""To read one dump."""
DUMP_ROWS_MAX = 5_000
"""Rows read of one dump."""
SYNC_S_MAX = 15.0
"""To wait for the first state of flow control and pods; then looks go on without them."""
SYNC_POLL_S = 0.02
PROBE_S_MAX = 3.0
"""To read the HTTP/2 greeting of one API server."""
PROBE_FRAMES_MAX = 16
SHARED_S = 300.0
"""How long an API server behind a shared address is shown after it was last seen."""
SHARED_AGE_S = 0.001
"""Age of connections to a shared address: each look opens a new one, which may reach another API server."""
REPLICAS_MAX = 16
"""API servers observed."""
SETTLE_S_MAX = 8.0
"""To wait after a write of flow control until the API servers' metrics show it."""
SETTLE_POLL_S = 0.25
CHANGE_S = 0.5
"""To gather changes of flow control before the next look."""
REOPEN_S = 15.0
"""To wait after credentials could not be read."""
AUDIT_BODY_BYTES_MAX = 16 * 1024 * 1024
"""Size of one audit batch: 400 events at level Metadata, about 1.5 KB each."""
AUDIT_CLOSE_S = 2.0
STOP_S_MAX = 5.0
"""To close everything that was opened."""
