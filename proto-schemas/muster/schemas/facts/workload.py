"""Facts of workloads: Kubernetes objects that stand for a job. By their cluster's agent; answers by the gateway.

subject: the object's uid. The id of the object's job is derived from it (`origin_key`), so the agent knows it
before the gateway accepts the job, and an object is never two jobs.
"""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Label, Payload, Text, Wire
from muster.schemas.job import JobSpec, Phase, WorkloadRef
from muster.schemas.record import StateRecord

NODES_SHOWN_MAX = 32
"""Maximum number of node names that an object shows; beyond it, only the number."""


class WorkloadSubmitRequested(Payload):
    """`submit-requested`: an object requests to run. The gateway answers by `submitted` or `refused`.

    principal: the principal of the object's namespace, from the cluster's settings.
    """

    job_id: JobId
    spec: JobSpec
    principal: Label
    origin: WorkloadRef
    trace: str = ""


class WorkloadCancelRequested(Payload):
    """`cancel-requested`: the object is gone, or requests to stop."""

    job_id: JobId
    principal: Label
    reason: Text = ""


class WorkloadRejected(Payload):
    """`rejected`: the object cannot be a job; a condition on it gives the reason. field: of the object; cure: what
    to do. generation: of the object as read; another one is checked again."""

    origin: WorkloadRef
    generation: int = 0
    reason: Text = ""
    field: str = ""
    cure: Text = ""


class WorkloadSettled(Payload):
    """`settled`: the job is over, or was refused, and the object shows it; nothing more follows for the object."""

    job_id: JobId
    reason: Text = ""


class JobRefused(Payload):
    """`refused` (gateway, FED) and `refusal-forwarded` (federation): a workload's job is not accepted now.

    workload: uid of the object. wish: id of the `submit-requested` that this answers; "" if it was not recorded.
    The agent may ask again, with another fact.
    """

    workload: Label
    cluster: str
    reason: Text = ""
    field: str = ""
    cure: Text = ""
    wish: str = ""


class RefusalState(Payload):
    """`state-recorded` of a workload, by the federation: a refusal, of the fact `fact`, that is not yet forwarded."""

    job_id: JobId
    refused: JobRefused
    fact: str
    trace: str = ""


class Standing(Wire):
    """State of a workload's job, as its object shows it. A time is 0 until it has come.

    accepted: it is a job of the cluster. nodes: at most NODES_SHOWN_MAX of nodes_total, by name. stopping: its pods
    are asked to end, for `reason`. last_fact: the newest fact that changed it.
    """

    accepted: bool = False
    phase: Phase = Phase.SUBMITTED
    reason: Text = ""
    detail: Text = ""
    queue: str = ""
    attempt: int = 0
    nodes: Annotated[tuple[str, ...], Field(max_length=NODES_SHOWN_MAX)] = ()
    nodes_total: int = 0
    stopping: bool = False
    exit_code: int = 0
    accepted_at: InstantNs = 0
    queued_at: InstantNs = 0
    placed_at: InstantNs = 0
    started_at: InstantNs = 0
    ended_at: InstantNs = 0
    last_fact: str = ""


@dataclass(slots=True)
class WorkloadState(StateRecord):
    """`state-recorded` of a workload, by the agent: its requests and their answers."""

    asked: WorkloadSubmitRequested
    """Its newest request."""
    asked_at: InstantNs = 0
    asked_fact: str = ""
    """Id of the fact that carries that request."""
    cancelled: bool = False
    """Whether its cancellation was requested."""
    refused: JobRefused | None = None
    """The newest refusal that was forwarded; None while its request is not refused."""
    standing: Standing = field(default_factory=Standing)
    """State of its job."""
    tries: int = 0
    """Number of refusals."""
    refused_at: InstantNs = 0
    again_at: InstantNs = 0
    """When its request is repeated."""
    asked_again: bool = False
    """Whether the request was repeated since the refusal, and is not answered."""
