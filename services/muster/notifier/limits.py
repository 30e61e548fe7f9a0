"""Limits of the notifier."""

WEBHOOKS_MAX = 64
"""Maximum number of webhooks. Each has at most one request under way per log, so this also limits connections."""
RESPONSE_BYTES_MAX = 4 * 1024
"""Bytes read of an answer, so that the connection can be reused; a longer answer closes the connection."""
WORDS_MAX = 200
"""Characters of an answer that a test of a webhook shows."""
FILE_BYTES_MAX = 4 * 1024
"""Maximum size of a file with a secret or an address."""
SECRETS_MAX = 4
"""Maximum number of keys that sign a message at a time, while one replaces the other."""
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
"""Size of a key, as the Standard Webhooks specification requires."""
REFUSED_ATTEMPTS_MAX = 3
"""Maximum number of attempts if the receiver refuses the message itself: a retry would be refused again."""
RETRY_AFTER_S_MAX = 3_600.0
"""Maximum pause that a receiver may request, in seconds."""
JITTER = 0.2
"""Share by which a pause varies, so that receivers are not called at the same time."""
ANSWER_MARGIN_S = 10.0
"""Time of a delivery besides the request, before the broker redelivers the event, in seconds."""
IDLE_FETCH_S = 5.0
"""Timeout of one fetch of the next event, in seconds; a reconnect during it costs at most this."""
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 30.0
"""Pause between attempts while the broker delivers no events, in seconds."""
FORGET_S = 7 * 86_400.0
"""Time after which an unserved webhook loses its position, in seconds; it then starts at the log's end."""
JOBS_LOOKED_UP_MAX = 16
"""Maximum number of jobs of one event that are looked up."""
HISTORY_ATTEMPTS_MAX = 5
"""Number of look-ups of an unknown job; then its end is sent without its name."""
REDIS_TIMEOUT_S = 2.0
