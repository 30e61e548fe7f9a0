"""Bounds of the upgrader's core."""

ENDED_KEPT = 16
"""Ended campaigns that are still shown, besides those with failed nodes that wait for a person."""

DRAFTS_MAX = 512
"""Drafts of one decision; the rest follows with the next."""

REPLAN_S = 5.0
"""Minimum time between two plans of turns; turns that began continue in between."""

RESAY_S = 60.0
"""A turn that moved by less is not announced again."""

MARGIN_S = 300.0
"""Margin after a turn's planned time, at which the node is requested, and by which a late turn is assumed to last
longer: the scheduler grants a node at its time even if the turn before it is late.
"""

ANSWER_SLACK_S = 120.0
"""Time after its limit at which an unanswered action or check counts as failed."""
