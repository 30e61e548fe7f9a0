"""Labels, annotations and conditions by which objects ask for a job, and show it."""

from typing import Final

QUEUE: Final = "muster.dev/queue"
"""Label: the object asks to run, in this queue."""
GANG: Final = "muster.dev/gang"
"""Label of pods that run together or not at all."""
GANG_SIZE: Final = "muster.dev/gang-size"
"""Label or annotation of each of them: how many they are."""
GROUP: Final = "muster.dev/group"
"""Label of a pod of a gang: its task group ("launcher", "ps")."""
OPTIONS: Final = {
    "muster.dev/priority": "priority",
    "muster.dev/kind": "kind",
    "muster.dev/preemptible": "preemptible",
    "muster.dev/total-run-time-s": "total_run_time_s",
    "muster.dev/min-slice-s": "min_slice_s",
    "muster.dev/grace-s": "grace_s",
    "muster.dev/same-model": "same_model",
    "muster.dev/full-node": "full_node",
    "muster.dev/preflight": "preflight",
}
"""Annotations, or labels, that say what a JobSpec says under another name."""
TOPOLOGY: Final = "muster.dev/topology"
"""Annotation: level within which the pods shall be, "rack", or "rack:required"."""

JOB_ID: Final = "muster.dev/job-id"
PHASE: Final = "muster.dev/phase"
REASON: Final = "muster.dev/reason"
"""Annotations by which objects that are not ours show their job."""
GENERATION: Final = "muster.dev/rejected-generation"
"""Annotation: of the object as it was rejected."""
ATTEMPT: Final = "muster.dev/let-go-for"
"""Annotation: the attempt for which Muster let the object make its pods."""
HELD: Final = "muster.dev/held"
"""Annotation: Muster suspended the object, not its owner."""
POD_CONDITION: Final = "muster.dev/Job"
"""Condition of a pod that shows its job. reason: the phase; message: the job's id, and why."""
