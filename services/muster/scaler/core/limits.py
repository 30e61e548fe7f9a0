"""Every bound of the scaler, in one place."""

LOOKS_MAX = 8
"""Shapes of waiting jobs for which an enlarging is simulated in one decision; the next one goes on."""

COMING_MAX = 16
"""Waiting jobs in one decision for which it is simulated whether nodes on their way will do once they get more GPUs.

Those beyond wait until one of these nodes has joined.
"""

CHOICES_PER_DECISION_MAX = 64
"""Choices made in one decision; the next one goes on."""

FITS_PER_DECISION_MAX = 512
"""Waiting jobs for which there is room already and which take theirs virtually, in one decision."""

MODELS_TRIED_MAX = 8
"""GPU models that one job is tried on in one go because its queue may hold no more of those before."""

CHOICES_OPEN_MAX = 4_096
"""Choices under way; beyond it nothing new is chosen until some ended."""

ASKS_MAX = 32
"""Times that the placement engine is asked about one enlarging beyond the first: more devices, then fewer."""

PLENTY = 4
"""For several groups of one gang: so many times the devices that they ask for are tried where fewer did not do."""

DOMAINS_MAX = 16
"""Topology domains, cheapest first, in which an enlarging is tried for a gang that must stand in one."""

LOOK_AGAIN_S = 5.0
"""A shape for which nothing helped is looked at again because of places that came free at whole multiples of this."""

LOOK_AGAIN_QUEUES = 64
"""Shapes that may wait before that becomes twice, three times as long: so the work for all of them is bounded."""

SERVED_S = 10.0
"""So long after its choice was carried out a job has to be placed; then it counts as demand again."""

HEALTH_S = 60.0
"""So long a job waits for nodes or devices that are not well before others are thought of."""

DEVICE_SPARE_S = 60.0
"""So long after all deadlines of the composer, which should have said so, a choice of GPUs failed."""

SHOWN_MAX = 400
"""Choices, and reasons why nothing was chosen, in one answer: the newest."""

ENDED_KEPT = 200
"""Choices that ended and are still shown."""

REFUSED_KEPT = 65_536
"""Waiting jobs and nodes of which is remembered what `nothing-chosen` said last; of more than these nothing is said."""

REFUSED_SHOWN = 200
"""Of the newest of these the reason is shown, also after a start from a checkpoint."""

STATE_ENTRIES_MAX = 1_024
"""Entries in one part of a checkpoint, so that each stays far below what a fact may be long."""

STATE_TEXTS_MAX = 64
"""The same for entries with words of somebody."""

MOVED_KEPT = 65_536
"""Names of which is remembered when something last moved there; beyond it the oldest is forgotten."""

ALTERNATIVES_NAMED_MAX = 16
"""What else was simulated, as far as a choice shows it."""

TRIED_SPARE = 1_024
"""Shapes beyond twice those that wait of which is remembered what was tried in vain; then those gone are forgotten."""

GROUPS_MAX = 1_024
"""Node groups of one cluster."""

SIGNALS_MAX = 16_384
"""Standing words of an autoscaler outside; beyond it the oldest is forgotten: it repeats what it still wants."""

TRIAL_NODES_MAX = 1_024
"""Virtual nodes with which the autoscaler tries a gang."""

EVER_ASKS_MAX = 16
"""Refused shapes of which the placement engine is asked, in one decision, whether what there is could ever do."""

DONORS_MAX = 4_096
"""Idle devices of other nodes that are offered to one gang: more than one decision moves."""

IDLE_ENTRIES_SPARE = 1_024
"""Entries of a heap of due moments beyond twice those that count; then it is made anew."""

HOLDERS_NAMED_MAX = 4
"""Jobs that a reason names as holders of a node."""
