"""Names, labels, annotations and taints of the agent's objects.

Names follow from (job, attempt, group, replica), so that a new leader finds existing objects.
"""

from dataclasses import dataclass

from muster.schemas import pods
from muster.schemas.job import JobSpec

SCHEDULER_NAME = "muster"
CLUSTER_LABEL = "muster.dev/cluster"
"""Name of the cluster whose agent created the object: several may share an API server."""
JOB_LABEL = "muster.dev/job"
ATTEMPT_LABEL = "muster.dev/attempt"
GROUP_LABEL = "muster.dev/group"
GROUP_INDEX_LABEL = "muster.dev/group-index"
REPLICA_LABEL = "muster.dev/replica"
TEAM_LABEL = "muster.dev/team"
QUEUE_LABEL = "muster.dev/queue"
CHECKPOINT_ANNOTATION = "muster.dev/checkpointed-at"
CHECK_POD_LABEL = "muster.dev/check-pod"
"""Label of pods that only check nodes for pods of another controller: "true"."""
WORK_LABEL = "muster.dev/node-work"
"""Label of Jobs that work on a node, and of their pods: the Job's name."""
TRACE = "muster.dev/trace"
JOB_NAME = "muster.dev/job-name"
HOSTS = "muster.dev/hosts"
"""Annotation: the host file, for a launcher."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label of pods of an Indexed Job: the index within their group."""
OWN_TAINT = "muster.dev/own"
"""Taint of nodes whose devices only Muster allocates."""
GPU_TAINT = "nvidia.com/gpu"
"""Taint that keeps other pods off GPU nodes."""
CHECKS, GATE = "muster-preflight", "muster-gate"
"""Init containers: the checks before a pod's first step, and the gate that waits for their verdict."""
INIT_CONTAINERS = frozenset({CHECKS, GATE})
GATE_ANNOTATION = "muster.dev/gate"
OPEN = "open"
GATE_FOLDER, GATE_FILE = "/etc/muster-gate", "gate"
GATE_VOLUME = "muster-gate"
_CLAIM = "-gpus"
_GROUP_CHARS_MAX = 57  # so that "-4095" can follow in a host name


@dataclass(frozen=True, slots=True, order=True)
class PodKey:
    """One pod of one attempt; `is_check`: a pod that checks the place of the job's own pod."""

    job_id: str
    attempt: int
    group: int
    replica: int
    is_check: bool = False


def job_label(job_id: str) -> str:
    """Return a job id as a label or name: in lower case."""
    return job_id.lower()


def job_of_label(label: str) -> str:
    """Return the job id of a label."""
    return label.upper()


def pod_name(key: PodKey) -> str:
    """Return `mj-<job>-<attempt>-<group>-<replica>`, which is a valid host name; `-check` follows for a check pod."""
    name = pods.pod_name(key.job_id, attempt=key.attempt, group=key.group, replica=key.replica)
    return f"{name}-check" if key.is_check else name


def attempt_name(job_id: str, attempt: int) -> str:
    """Return the name of the attempt's Service; it begins with a letter, which job ids may not."""
    return f"mj-{job_label(job_id)}-{attempt}"


def host_name(spec: JobSpec, group: int, replica: int) -> str:
    """Return the host name of a pod: `worker-3`; a long group name is replaced by its number."""
    name = spec.task_groups[group].name
    return f"{name if len(name) <= _GROUP_CHARS_MAX else f'group{group}'}-{replica}"


def claim_name(pod: str) -> str:
    """Return the name of the ResourceClaim of a pod's GPUs."""
    return f"{pod}{_CLAIM}"


def pod_of_claim(claim: str) -> str:
    """Return the pod's name of a claim of Muster."""
    return claim.removesuffix(_CLAIM)
