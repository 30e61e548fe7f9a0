"""Labels, annotations and conditions by which objects ask for a job and show its state."""

from typing import Final

QUEUE: Final = "muster.dev/queue"
"""Label: the queue in which the object asks to run."""
GANG: Final = "muster.dev/gang"
"""Label of the pods of a gang."""
GANG_SIZE: Final = "muster.dev/gang-size"
"""Label or annotation of each pod: the size of its gang."""
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
"""Annotations or labels that set a field of JobSpec."""
TOPOLOGY: Final = "muster.dev/topology"
"""Annotation: topology level of the pods, "rack", or "rack:required"."""

JOB_ID: Final = "muster.dev/job-id"
PHASE: Final = "muster.dev/phase"
REASON: Final = "muster.dev/reason"
"""Annotations with which objects other than MusterJobs show their job."""
GENERATION: Final = "muster.dev/rejected-generation"
"""Annotation: generation of the object that was rejected."""
ATTEMPT: Final = "muster.dev/let-go-for"
"""Annotation: the attempt for which Muster unsuspended the object."""
HELD: Final = "muster.dev/held"
"""Annotation: Muster suspended the object, not its owner."""
POD_CONDITION: Final = "muster.dev/Job"
"""Condition of a pod that shows its job: phase as reason; job id and explanation as message."""
