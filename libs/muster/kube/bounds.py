"""Bounds of everything that talks to an API server, in one place."""

CONNECT_S = 5.0
"""To open a connection."""
REQUEST_S = 30.0
"""One request with its answer; the server times out at 60 s (--request-timeout)."""
LIST_S = 60.0
"""One page of a list, which may wait 15 s in a flow-control queue first."""
CONNECTIONS_MAX = 64
"""Connections for requests. HTTP/1.1 carries one at a time; the server's own limit is 400 reads and 200 writes."""
WATCHES_MAX = 64
"""Connections for watches, separate because they last."""
CONNECTION_AGE_S = 300.0
"""Maximum age of a pool of connections, since --goaway-chance reaches HTTP/2 clients only: behind a load balancer the
connections of a restarted API server would otherwise never return to it."""
CONNECTION_AGE_JITTER = 0.2
"""Part by which a pool's age is shortened at random, so that replicas of a service do not reconnect together."""
KEEPALIVE_S = 60.0
"""Idle time after which a connection is closed; the API server closes idle ones after 180 s."""
ATTEMPTS_MAX = 4
"""Attempts of a request that may be repeated."""
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.25, 8.0
RETRY_AFTER_S_MAX = 32.0
"""The largest Retry-After of flow control."""
CREDENTIALS_AGE_S = 60.0
"""Age after which tokens and certificates are read again: service-account tokens are renewed in their file."""
BODY_BYTES_MAX = 256 * 2**20
"""Size of one answer. A list of 10,000 whole pods is 58 MB; pages are far smaller."""
LINE_BYTES_MAX = 16 * 2**20
"""Size of one watch event: objects are at most 1.5 MiB in etcd, and JSON is longer."""
READ_BYTES = 2**18
"""Bytes read from a stream in one turn of the loop: about 45 events of 5.8 KB pods, 2 ms."""
ERROR_CHARS_MAX = 600
"""Length of a server's error message."""
PAGE_ITEMS = 500
"""Items of one page of a list, as in client-go."""
PAGES_MAX = 10_000
"""Pages of one list."""
GATHER_S = 0.02
"""Pause after a small read in a stream of single events, so that they are read and delivered together."""
GATHER_AFTER = 8
"""Reads in a row, each within GATHER_S, after which pauses begin: a single event is not delayed."""
GATHER_EVENTS_MAX = 16
"""Events of a small read; more mean an initial state or a backlog, which is read without a pause."""
WATCH_S = 300
"""Minimum duration of a watch; at most twice that, by seed, as in client-go, so that replicas renew apart."""
SILENCE_S = 100.0
"""Time without a byte after which a watch is dead: the server sends a bookmark every 60 s."""
SHORT_WATCH_S = 1.0
"""A watch that ends sooner without an event counts as a failure, so that it is not repeated in a loop."""
RELIST_S_MIN, RELIST_S_MAX = 1.0, 60.0
"""Backoff before the state is listed again: all reflectors of a fleet lose it at the same moment."""
REFUSED_S = 30.0
"""Between attempts that lack a permission or whose kind is not served: an administrator must fix these."""
TOO_LARGE_MAX = 3
"""Times that a server may not know the resourceVersion yet; then it was restored from a backup: list again."""
CHANGES_MAX = 500
"""Changes of one delivery."""
COMPARE_S = 300.0
"""Between two comparisons of the held objects with the server's."""
COMPARE_WHOLE_EVERY = 12
"""Every how many comparisons one compares each resourceVersion instead of the count: hourly."""
SETTLE_S = 150.0
"""A watch is stuck if it does not reach the version that the server had this time ago; bookmarks come every 60 s."""
JOURNAL_MAX = 100_000
"""Changes that one comparison may wait through before it is given up."""
SHARED_EVENTS_MAX = 500
"""Events queued for a follower of a shared watch: at 40 KB for a parsed pod 20 MiB. A slower one opens its own watch.
"""
