"""Names of what pods of one attempt share, and annotations and taints that Muster's pods know."""

from muster.agent.core.kubernetes import names
from muster.schemas.job import JobSpec

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
_CLAIM = "-gpus"
_GROUP_CHARS_MAX = 57  # with "-4095" behind it, a host name


def attempt_name(job_id: str, attempt: int) -> str:
    """Of an attempt as a whole: its Service. It begins with a letter, as a Service's name must; job ids may not."""
    return f"mj-{names.job_label(job_id)}-{attempt}"


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


TEAM = "{team}"
"""In `kubernetes.namespace`: the team."""


def namespace_for(pattern: str, team: str) -> str:
    """Where a team's pods are. pattern: as the cluster's settings say it, `{team}` for the team."""
    return pattern.replace(TEAM, team)
