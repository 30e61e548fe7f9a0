"""Every bound of the health core, in one place."""

SIGNALS_MAX = 50_000
"""Fault signals waiting to be reported; more are dropped and counted, notes and application faults first."""
SIGNALS_PER_DECISION = 2_000
TOGETHER_MAX = 8
"""Signals of one node reported in one turn: a storm on all its GPUs is one fact."""
ANSWER_S = 300.0
"""After an action's own limit, until the agent's answer is given up."""
XID_WINDOW_S = 300.0
"""Window in which an exporter counts XIDs, by its default."""
INCIDENTS_MAX = 64
TEAMS_MAX = 16
JOBS_MAX = 16
"""Holders of a device in a fault, and owners notified of one application fault."""
HISTORY_MAX = 500
"""Ended fault episodes kept for display; not part of a checkpoint."""
WORD_CHARS_MAX = 200
"""Length of a page's text that becomes part of a code, which has room for it and a prefix."""
PAGE_WAIT_S = 6 * 3600.0
"""How long a page may still show a fault that has no repair, before a person is needed."""
