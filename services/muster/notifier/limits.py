"""Bounds of the notifier, in one place."""

WEBHOOKS_MAX = 64
"""Each has at most one request under way per log, so this also bounds connections."""
RESPONSE_BYTES_MAX = 4 * 1024
"""Read of an answer, so that the connection can be used again; the rest is dropped with the connection."""
WORDS_MAX = 200
"""Characters of an answer that are shown to whoever tries a webhook out."""
FILE_BYTES_MAX = 4 * 1024
"""Of a file with a secret or an address."""
SECRETS_MAX = 4
"""Keys that a message is signed with at a time, while one replaces the other."""
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
"""Of a key, as the Standard Webhooks specification asks."""
REFUSED_ATTEMPTS_MAX = 3
"""A receiver that finds the message itself wrong is not asked more often: it would find the same again."""
RETRY_AFTER_S_MAX = 3_600.0
"""A receiver may ask for more patience than the backoff has, up to this."""
JITTER = 0.2
"""Share by which a pause is longer or shorter, so that receivers are not all asked at the same moments."""
ANSWER_MARGIN_S = 10.0
"""What a delivery may take beside the request, before the broker gives the event to somebody else."""
IDLE_FETCH_S = 5.0
"""One request for the next event waits so long; a reconnect in the middle of it costs at most this."""
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 30.0
"""Between attempts to get at events while the broker does not give any."""
FORGET_S = 7 * 86_400.0
"""A webhook that nobody serves for so long loses its place, and begins at the log's end when it comes back."""
JOBS_LOOKED_UP_MAX = 16
"""Jobs of one event whose names are looked up."""
HISTORY_ATTEMPTS_MAX = 5
"""Look-ups of an unknown job; after that its end is sent without its name."""
REDIS_TIMEOUT_S = 2.0
