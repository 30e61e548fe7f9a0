"""Facts of workloads: objects of Kubernetes that stand for a job. By their cluster's agent; answers by the gateway.

subject: the object's uid. The object's job has an id that follows from it (`origin_key`), so that the agent knows it
before the gateway accepts it, and the same object is never two jobs.
"""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Label, Payload, Text, Wire
from muster.schemas.job import JobSpec, Phase, WorkloadRef
from muster.schemas.record import StateRecord

NODES_SHOWN_MAX = 32
"""Names of nodes that an object shows; of more the number alone."""


class WorkloadSubmitRequested(Payload):
    """`submit-requested`: somebody made an object that asks to run. The gateway answers by `submitted` or `refused`.

    principal: on whose behalf, as the cluster's settings name people of a namespace.
    """

    job_id: JobId
    spec: JobSpec
    principal: Label
    origin: WorkloadRef
    trace: str = ""


class WorkloadCancelRequested(Payload):
    """`cancel-requested`: the object is gone, or asks to stop."""

    job_id: JobId
    principal: Label
    reason: Text = ""


class WorkloadRejected(Payload):
    """`rejected`: the object can be no job; a condition on it says why. field: of the object; cure: what to do.

    generation: of the object as it was read; another one is looked at anew.
    """

    origin: WorkloadRef
    generation: int = 0
    reason: Text = ""
    field: str = ""
    cure: Text = ""


class WorkloadSettled(Payload):
    """`settled`: the job is over, or was refused, and the object shows it; nothing more follows from this object."""

    job_id: JobId
    reason: Text = ""


class JobRefused(Payload):
    """`refused` (gateway, FED) and `refusal-forwarded` (federation): a workload's job is not accepted now.

    workload: uid of the object. wish: the fact `submit-requested` that this answers; "" where it was not told. The
    agent may ask again, with another fact.
    """

    workload: Label
    cluster: str
    reason: Text = ""
    field: str = ""
    cure: Text = ""
    wish: str = ""


class RefusalState(Payload):
    """`state-recorded` of a workload, by the federation: a refusal, told by `fact`, that is not yet forwarded."""

    job_id: JobId
    refused: JobRefused
    fact: str
    trace: str = ""


class Standing(Wire):
    """Where a workload's job stands, as its object shows it. Times are 0 while they have not come.

    accepted: it is a job of the cluster. nodes: at most NODES_SHOWN_MAX of nodes_total, by name. stopping: its pods are
    asked to end, for `reason`. last_fact: that moved it.
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
    """`state-recorded` of a workload, by the agent: what it asked, and what was answered."""

    asked: WorkloadSubmitRequested
    """Its newest request."""
    asked_at: InstantNs = 0
    asked_fact: str = ""
    """Id of the fact that carries that request."""
    cancelled: bool = False
    """Whether it asked to cancel."""
    refused: JobRefused | None = None
    """The newest refusal that was forwarded; None while its request is not refused."""
    standing: Standing = field(default_factory=Standing)
    """Where its job stands."""
    tries: int = 0
    """How often it was refused."""
    refused_at: InstantNs = 0
    again_at: InstantNs = 0
    """When its request is made again."""
    asked_again: bool = False
    """Whether it was made again since it was refused, and is not answered."""
