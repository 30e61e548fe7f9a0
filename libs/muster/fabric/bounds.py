"""Bounds of every driver, in one place."""

CONNECT_S = 5.0
"""Until a connection stands."""
IDLE_S = 2.0
"""A connection is used again within so long, or not: a server that closes it just then would make an effect unknown."""
BODY_BYTES_MAX = 16 * 2**20
"""Of one answer: 14,000 devices take about 5 MiB."""
ERROR_CHARS_MAX = 400
"""Of what a manager says about an error."""
CREDENTIALS_BYTES_MAX = 64 * 1024
TOKEN_LEEWAY_S = 30.0
"""A token is renewed so long before it expires, or at half its life if that is shorter."""
TOKEN_CHARS_MAX = 16 * 1024
TOKEN_RENEWALS_MAX = 1
"""How often one request gets a fresh token after a 401."""
TOKEN_S = 30.0
"""One request for a token."""
MACHINES_MAX = 20_000
"""Machines, nodes or systems of one inventory."""
DEVICES_MAX = 100_000
"""Devices of one inventory."""
MEMORY_MIB_MAX = 2**40
"""Of one device: an exbibyte."""
PAGES_MAX = 1_000
"""Pages of one collection (Redfish)."""
SURVEY_PARALLEL = 8
"""Requests of one survey at a time."""
POLL_S_MIN, POLL_S_MAX, POLL_GROWTH = 0.1, 2.0, 1.5
"""An operation that goes on by itself is looked at after so long, then ever more rarely."""
PARALLEL_MAX = {"fm": 1_024, "cm": 1_024, "nec": 1, "sunfish": 1_024, "operator": 1_024}
"""Calls that a manager takes at a time, by driver; those that name no limit leave it to the setting."""
