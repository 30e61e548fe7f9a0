"""Bounds of the upgrader's core, in one place."""

ENDED_KEPT = 16
"""Campaigns that are over and are still shown; those with nodes that failed and wait for a person stay besides."""

DRAFTS_MAX = 512
"""Drafts of one decision; what is left over comes with the next."""

REPLAN_S = 5.0
"""Turns are planned anew at most so often: in between, what began goes on."""

RESAY_S = 60.0
"""A turn that moved by less than that is not announced anew."""

MARGIN_S = 300.0
"""A node is asked for so much later than its turn is planned, and a turn that is late is thought to last so much
longer: the scheduler gives a node when its moment comes, also if the turn before it is not over then.
"""

ANSWER_SLACK_S = 120.0
"""So long after its limit an action or a check that was not answered counts as failed."""
