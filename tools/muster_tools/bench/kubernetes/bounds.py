"""Bounds and paces of the comparison, in one place."""

SETTLED_S = 20.0
"""Nothing was bound for so long: what is not placed stays stranded."""

RUN_SETTLED_S = 5.0
"""All is bound, and no more pods began to run for so long: then no more will."""

SAMPLE_S = 0.25
"""Between two looks at the processes' memory."""

CALM_S = 1.5
CALM_S_MAX = 30.0
"""Before the first workload: nobody has listed anything for so long, and how long that may take to come."""

POLL_S = 0.1
"""Between two looks at how far a run is."""

WATCH_S_MAX = 600
"""After so long the API server ends a watch by itself, and it is opened anew where it stood."""

WATCH_RETRIES_MAX = 100
"""Watches that were cut off in one run: an API server under load cuts slow ones."""

UPDATE_PERIOD_S = 60.0
"""Node topology updaters write so often by default (node-feature-discovery's sleep interval)."""

CHURN_S = 10.0
"""How long a few more workloads are submitted while followers follow."""

CHURN_REST_S = 2.0
"""After the last of them, before the figures are taken."""

LISTS_AT_ONCE = 8
"""Of the informers that start."""

LIST_HEAD_BYTES = 4_096
"""Of a list: its version stands there."""
