"""Bounds and intervals of the comparison, in one place."""

SETTLED_S = 20.0
"""Time without a new binding after which unplaced workloads count as stranded."""

RUN_SETTLED_S = 5.0
"""Time without a newly running pod, once all are bound, after which no more are expected."""

SAMPLE_S = 0.25
"""Interval between two samples of the processes' memory."""

CALM_S = 1.5
CALM_S_MAX = 30.0
"""Idle time of the API server required before the first workload, and the maximum time to wait for it."""

POLL_S = 0.1
"""Poll interval of a run's progress."""

WATCH_S_MAX = 600
"""Time after which the API server ends a watch; the watch is reopened at the same version."""

WATCH_RETRIES_MAX = 100
"""Maximum number of interrupted watches in one run: an API server under load closes slow ones."""

UPDATE_PERIOD_S = 60.0
"""Default write interval of node topology updaters (node-feature-discovery's sleep interval)."""

CHURN_S = 10.0
"""How long a few more workloads are submitted while followers watch."""

CHURN_REST_S = 2.0
"""Pause after the last of these workloads, before the figures are taken."""

LISTS_AT_ONCE = 8
"""Maximum number of concurrent LISTs of starting informers."""

LIST_HEAD_BYTES = 4_096
"""Size of the beginning of a list that contains its resource version."""
