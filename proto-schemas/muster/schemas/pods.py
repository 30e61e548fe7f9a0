"""The pods of a job on a Kubernetes cluster: their names, and the answer of `GET /v1/jobs/{id}/pods`. Pure."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import Wire
from muster.schemas.job import REPLICAS_MAX

CONTAINER = "main"
"""The container of a pod that runs the job's command."""
KUBERNETES = "kubernetes"
"""`backend` of a cluster whose jobs are pods."""
TEAM = "{team}"
"""Placeholder for the team in the namespace of a cluster's jobs."""


def pod_name(job_id: str, *, attempt: int, group: int, replica: int) -> str:
    """Return `mj-<job>-<attempt>-<group>-<replica>`, which is a valid host name."""
    return f"mj-{job_id.lower()}-{attempt}-{group}-{replica}"


def namespace_for(pattern: str, team: str) -> str:
    """Return the namespace of a team's pods; `pattern` may have `{team}`."""
    return pattern.replace(TEAM, team)


PodName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
"""A name of an object of Kubernetes: it begins with no hyphen, so that a program takes it for no option."""


class JobPod(Wire):
    """One replica's pod."""

    group: int
    """Number of the task group, from 0."""
    replica: int
    """Number of the replica in its group, from 0."""
    node: str
    name: PodName


class JobPods(Wire):
    """Where the replicas of a job's present attempt run: answer of `GET /v1/jobs/{id}/pods`.

    Muster has no permission to read or enter pods. A user who has it reads and enters them with `kubectl`.
    """

    job_id: str
    cluster: str = ""
    """The job's cluster; empty while it has none."""
    backend: str = ""
    """`backend` of the cluster; only on "kubernetes" are there pods."""
    namespace: str = ""
    container: PodName = CONTAINER
    attempt: int = 0
    pods: Annotated[tuple[JobPod, ...], Field(max_length=REPLICAS_MAX)] = ()
    """Pods that Muster created, by group and replica. Empty before the first placement, and for a Kubernetes object
    that creates its pods itself."""
