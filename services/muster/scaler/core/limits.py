"""All limits of the scaler, in one place."""

LOOKS_MAX = 8
"""Shapes of waiting jobs for which one decision simulates adding GPUs; the next decision continues."""

COMING_MAX = 16
"""Waiting jobs for which one decision simulates whether nodes on their way will do once they get more GPUs.

Further jobs wait until one of these nodes has joined."""

CHOICES_PER_DECISION_MAX = 64
"""Choices made by one decision; the next decision continues."""

FITS_PER_DECISION_MAX = 512
"""Waiting jobs for which there is already room, and which take it in the simulation of one decision."""

MODELS_TRIED_MAX = 8
"""GPU models tried for one job because the quota of the earlier ones is used up."""

CHOICES_OPEN_MAX = 4_096
"""Open choices; beyond it nothing new is chosen until some end."""

ASKS_MAX = 32
"""Calls of the placement engine for one simulation beyond the first: more devices, then fewer."""

PLENTY = 4
"""For several groups of one gang: devices to try if fewer did not suffice, as a multiple of the request."""

DOMAINS_MAX = 16
"""Topology domains, cheapest first, that are tried for a gang that requires one domain."""

LOOK_AGAIN_S = 5.0
"""A refused shape is tried again because of freed places at whole multiples of this."""

LOOK_AGAIN_QUEUES = 64
"""Number of waiting shapes for which that interval is doubled, tripled and so on, so that the total work is bounded."""

SERVED_S = 10.0
"""Time within which a job has to be placed after its choice was completed; then it counts as demand again."""

HEALTH_S = 60.0
"""How long a job waits for unhealthy nodes or devices before scaling acts."""

DEVICE_SPARE_S = 60.0
"""Time after all deadlines of the composer, which should have reported, after which a choice of GPUs fails."""

SHOWN_MAX = 400
"""Choices, and reasons why nothing was chosen, in one answer: the newest."""

ENDED_KEPT = 200
"""Ended choices that are still shown."""

REFUSED_KEPT = 65_536
"""Waiting jobs and nodes whose last `nothing-chosen` report is remembered; beyond it nothing is reported."""

REFUSED_SHOWN = 200
"""Newest reports whose reason is shown, also after a start from a checkpoint."""

STATE_ENTRIES_MAX = 1_024
"""Entries in one part of a checkpoint, so that each stays far below the maximum size of a fact."""

STATE_TEXTS_MAX = 64
"""Entries with free text in one part of a checkpoint."""

MOVED_KEPT = 65_536
"""Names whose last move is remembered; beyond it the oldest is forgotten."""

ALTERNATIVES_NAMED_MAX = 16
"""Simulated alternatives that a choice shows."""

TRIED_SPARE = 1_024
"""Attempts remembered beyond twice the number of waiting shapes; then those of shapes that left are dropped."""

GROUPS_MAX = 1_024
"""Node groups of one cluster."""

SIGNALS_MAX = 16_384
"""Signals of an external autoscaler; beyond it the oldest is dropped, since the autoscaler repeats its signals."""

TRIAL_NODES_MAX = 1_024
"""Virtual nodes with which the autoscaler tries to fit a gang."""

EVER_ASKS_MAX = 16
"""Refused shapes for which one decision checks whether the present nodes could ever hold them."""

DONORS_MAX = 4_096
"""Idle devices of other nodes that are offered to one gang: more than one decision moves."""

IDLE_ENTRIES_SPARE = 1_024
"""Heap entries beyond twice the valid ones; then the heap is rebuilt."""

HOLDERS_NAMED_MAX = 4
"""Jobs that a reason names as holders of a node."""
