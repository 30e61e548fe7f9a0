"""Bounds of everything that talks to an API server, in one place."""

CONNECT_S = 5.0
"""Until a connection stands."""
REQUEST_S = 30.0
"""One request with its answer; the server gives up at 60 s (--request-timeout)."""
LIST_S = 60.0
"""One page of a list, which may wait 15 s in a flow-control queue first."""
CONNECTIONS_MAX = 64
"""For requests. HTTP/1.1 carries one at a time on each; the server's own limit is 400 reading and 200 writing."""
WATCHES_MAX = 64
"""Connections for watches, which would otherwise take the requests' own."""
CONNECTION_AGE_S = 300.0
"""A pool of connections is replaced after so long, since goaway-chance reaches HTTP/2 clients only: behind a load
balancer the connections of a restarted API server would otherwise never come back to it."""
CONNECTION_AGE_JITTER = 0.2
"""By so large a part a pool's life is shortened, so that replicas of a service do not reconnect together."""
KEEPALIVE_S = 60.0
"""An idle connection is kept so long; the API server closes idle ones after 180 s."""
ATTEMPTS_MAX = 4
"""Of one request that may be sent again."""
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.25, 8.0
RETRY_AFTER_S_MAX = 32.0
"""The largest Retry-After of flow control."""
CREDENTIALS_AGE_S = 60.0
"""Tokens and certificates are looked up again after so long: service-account tokens are renewed in their file."""
BODY_BYTES_MAX = 256 * 2**20
"""Of one answer. A list of 10,000 whole pods is 58 MB; pages are far smaller."""
LINE_BYTES_MAX = 16 * 2**20
"""Of one event of a watch: objects are at most 1.5 MiB in etcd, and JSON is longer."""
READ_BYTES = 2**18
"""What one turn of the loop takes from a stream: at 5.8 KB for a pod some 45 events, 2 ms."""
ERROR_CHARS_MAX = 600
"""Of what a server says about an error."""
PAGE_ITEMS = 500
"""Of one page of a list: client-go's own choice."""
PAGES_MAX = 10_000
"""Of one list."""
GATHER_S = 0.02
"""After a read that brought little, in a stream of single events: so they are read, and told, together."""
GATHER_AFTER = 8
"""Reads in a row, each within GATHER_S, that make a stream: what one pod's end brings does not wait."""
GATHER_EVENTS_MAX = 16
"""What is little; more means that a state comes, or that the reader is behind, and then nothing waits."""
WATCH_S = 300
"""A watch is asked for at least so long and at most twice that, by seed, as client-go does: replicas renew apart."""
SILENCE_S = 100.0
"""A watch without a byte for so long is dead: the server sends a bookmark every 60 s."""
SHORT_WATCH_S = 1.0
"""A watch that ends sooner without an event counts as a failure, so that it is not asked for in a loop."""
RELIST_S_MIN, RELIST_S_MAX = 1.0, 60.0
"""Wait before the state is had anew, growing while that fails: all reflectors of a fleet lose it in the same moment."""
REFUSED_S = 30.0
"""Between attempts that lack a permission or whose kind is not served: people, not time, mend these."""
TOO_LARGE_MAX = 3
"""So often a server may not know our version yet; then it was restored from a backup, and the state is had anew."""
CHANGES_MAX = 500
"""Of one delivery."""
COMPARE_S = 300.0
"""Between two comparisons of what is held with what the server has."""
COMPARE_WHOLE_EVERY = 12
"""Of the comparisons by count, so many make a whole one by resourceVersion: hourly."""
SETTLE_S = 150.0
"""A watch that does not reach a version the server had so long ago is stuck; bookmarks come every 60 s."""
JOURNAL_MAX = 100_000
"""Changes that one comparison may have to wait through; then it is given up."""
SHARED_EVENTS_MAX = 500
"""That wait for one who shares a watch: at 40 KB for a parsed pod 20 MiB. Who is slower has a watch of its own."""
