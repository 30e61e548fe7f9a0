"""Every bound of the guard's I/O, in one place."""

SCRAPE_S_MAX = 10.0
"""One page of metrics of one API server."""
DUMP_S = 2.0
"""Between two looks at the requests that an API server works on, where nobody reports clients."""
DUMP_S_MAX = 3.0
"""One such look."""
DUMP_ROWS_MAX = 5_000
"""Requests that are read of one look."""
SYNC_S_MAX = 15.0
"""For the first state of flow control and pods; a look is made without them after that."""
SYNC_POLL_S = 0.02
PROBE_S_MAX = 3.0
"""The HTTP/2 greeting of one API server."""
PROBE_FRAMES_MAX = 16
SHARED_S = 300.0
"""An API server behind a shared address is shown so long after it was last met."""
SHARED_AGE_S = 0.001
"""Age of connections to a shared address: each look makes a new one, which may reach another API server."""
REPLICAS_MAX = 16
"""API servers that are looked at."""
SETTLE_S_MAX = 8.0
"""From a write of flow control until the API servers' metrics show it."""
SETTLE_POLL_S = 0.25
CHANGE_S = 0.5
"""Changes of flow control are gathered for so long before they are looked at."""
REOPEN_S = 15.0
"""After credentials that cannot be read."""
AUDIT_BODY_BYTES_MAX = 16 * 1024 * 1024
"""One batch of an API server's audit webhook: 400 events, of level Metadata some 1.5 KB each."""
AUDIT_CLOSE_S = 2.0
STOP_S_MAX = 5.0
"""For everything that was opened to be closed."""
