"""Names, labels, annotations and taints of what the agent makes.

Names follow from (job, attempt, group, replica), so that a new leader finds what another one made.
"""

from dataclasses import dataclass

from muster.schemas.job import JobSpec

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
TRACE = "muster.dev/trace"
JOB_NAME = "muster.dev/job-name"
HOSTS = "muster.dev/hosts"
"""Annotation: the lines of the host file, for a launcher."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""What pods of an Indexed Job carry: the index within their group."""
OWN_TAINT = "muster.dev/own"
"""Taint of nodes whose devices Muster alone gives away."""
GPU_TAINT = "nvidia.com/gpu"
"""Taint by which clusters keep other pods off nodes with GPUs."""
TEAM = "{team}"
"""In `kubernetes.namespace`: the team."""
CHECKS, GATE = "muster-preflight", "muster-gate"
"""Init containers: the checks before a pod's first step, and what waits there for their verdict."""
INIT_CONTAINERS = frozenset({CHECKS, GATE})
GATE_ANNOTATION = "muster.dev/gate"
OPEN = "open"
GATE_FOLDER, GATE_FILE = "/etc/muster-gate", "gate"
GATE_VOLUME = "muster-gate"
_CLAIM = "-gpus"
_GROUP_CHARS_MAX = 57  # with "-4095" behind it, a host name


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


def attempt_name(job_id: str, attempt: int) -> str:
    """Of an attempt as a whole: its Service. It begins with a letter, as a Service's name must; job ids may not."""
    return f"mj-{job_label(job_id)}-{attempt}"


def host_name(spec: JobSpec, group: int, replica: int) -> str:
    """What a pod calls itself within its attempt: `worker-3`. A group's name too long for that gives its number."""
    name = spec.task_groups[group].name
    return f"{name if len(name) <= _GROUP_CHARS_MAX else f'group{group}'}-{replica}"


def claim_name(pod: str) -> str:
    """Of the ResourceClaim of a pod's GPUs."""
    return f"{pod}{_CLAIM}"


def pod_of_claim(claim: str) -> str:
    """The name of the pod of a claim of ours."""
    return claim.removesuffix(_CLAIM)


def namespace_for(pattern: str, team: str) -> str:
    """Where a team's pods are. pattern: as the cluster's settings say it, `{team}` for the team."""
    return pattern.replace(TEAM, team)
