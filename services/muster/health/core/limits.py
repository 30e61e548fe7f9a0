"""Every bound of the health core, in one place."""

SIGNALS_MAX = 50_000
"""FaultSignals that wait to be told; more are dropped, notes and application faults first, and counted."""
SIGNALS_PER_DECISION = 2_000
TOGETHER_MAX = 8
"""Of one node that are told in one turn: a storm on all its GPUs is one fact."""
ANSWER_S = 300.0
"""Beyond an action's own limit: then the agent's answer is given up."""
XID_WINDOW_S = 300.0
"""Of an exporter that counts XIDs, as it is by default."""
INCIDENTS_MAX = 64
TEAMS_MAX = 16
JOBS_MAX = 16
"""Holders of a device that a fault names, and owners who are told of one application fault."""
HISTORY_MAX = 500
"""Illnesses that ended, kept for people; they are no part of a checkpoint."""
WORD_CHARS_MAX = 200
"""Of a page's word that becomes a part of a code: with what stands before it, a code has room for it."""
PAGE_WAIT_S = 6 * 3600.0
"""So long it is waited for a page to show that a fault is over for which nothing can be done; then for a person."""
