"""Bounds of every driver, in one place."""

CONNECT_S = 5.0
"""Maximum time to establish a connection, in seconds."""
IDLE_S = 2.0
"""Maximum idle time of a reused connection, in seconds. A server that closes it just then leaves an effect unknown."""
BODY_BYTES_MAX = 16 * 2**20
"""Maximum size of one response; 14,000 devices take about 5 MiB."""
ERROR_CHARS_MAX = 400
"""Maximum length of a manager's error message that is kept."""
CREDENTIALS_BYTES_MAX = 64 * 1024
TOKEN_LEEWAY_S = 30.0
"""Time before its expiry at which a token is renewed, in seconds; half of its lifetime if that is shorter."""
TOKEN_CHARS_MAX = 16 * 1024
TOKEN_RENEWALS_MAX = 1
"""Maximum number of new tokens for one request after a 401."""
TOKEN_S = 30.0
"""Time-out of one token request, in seconds."""
MACHINES_MAX = 20_000
"""Maximum number of machines, nodes or systems in one inventory."""
DEVICES_MAX = 100_000
"""Maximum number of devices in one inventory."""
MEMORY_MIB_MAX = 2**40
"""Maximum memory of one device: an exbibyte."""
PAGES_MAX = 1_000
"""Maximum number of pages of one collection (Redfish)."""
SURVEY_PARALLEL = 8
"""Maximum number of concurrent requests of one survey."""
POLL_S_MIN, POLL_S_MAX, POLL_GROWTH = 0.1, 2.0, 1.5
"""Poll interval of an asynchronous operation, in seconds: first, maximum and growth factor."""
PARALLEL_MAX = {"fm": 1_024, "cm": 1_024, "nec": 1, "sunfish": 1_024, "operator": 1_024}
"""Maximum number of concurrent calls to a manager, by driver; a high value leaves the limit to the setting."""
