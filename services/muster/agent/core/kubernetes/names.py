"""Names and labels of what the agent makes: they follow from (job, attempt, group, replica), so that a new leader
finds what another one made.
"""

from dataclasses import dataclass

SCHEDULER_NAME = "muster"
CLUSTER_LABEL = "muster.dev/cluster"
"""The cluster, as Muster calls it, whose agent made the object: two of them may share one API server."""
JOB_LABEL = "muster.dev/job"
ATTEMPT_LABEL = "muster.dev/attempt"
GROUP_LABEL = "muster.dev/group"
GROUP_INDEX_LABEL = "muster.dev/group-index"
REPLICA_LABEL = "muster.dev/replica"
TEAM_LABEL = "muster.dev/team"
QUEUE_LABEL = "muster.dev/queue"
CHECKPOINT_ANNOTATION = "muster.dev/checkpointed-at"
CHECK_POD_LABEL = "muster.dev/check-pod"
"""Of pods that only check the nodes of a job whose own pods others make: "true"."""
WORK_LABEL = "muster.dev/node-work"
"""Of Jobs that work on a node, and of their pods: their own name."""


@dataclass(frozen=True, slots=True, order=True)
class PodKey:
    """One pod of one attempt. is_check: not the job's own, but the one that checks its place before."""

    job_id: str
    attempt: int
    group: int
    replica: int
    is_check: bool = False


def job_label(job_id: str) -> str:
    """A job id as a label or a name can say it: in lower case."""
    return job_id.lower()


def job_of_label(label: str) -> str:
    """The job id that a label says."""
    return label.upper()


def pod_name(key: PodKey) -> str:
    """`mj-<job>-<attempt>-<group>-<replica>`, with a letter first, as a host name needs it; `-check` behind one."""
    name = f"mj-{job_label(key.job_id)}-{key.attempt}-{key.group}-{key.replica}"
    return f"{name}-check" if key.is_check else name
