"""Facts that keep the log itself in order: fences, terms, checkpoints, voided messages, summaries."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text
from muster.schemas.facts.federation import ContactState
from muster.schemas.facts.queue import PendingQueueChange


class Fence(Payload):
    """First message of every batch: the appending term, and the sequence up to which it had folded.

    Guarded by the expected last sequence of its own literal subject, so the broker refuses a deposed leader.
    """

    term: Annotated[int, Field(ge=0)]
    folded_seq: Annotated[int, Field(ge=0)]


class TermStarted(Payload):
    """`term-started`: a new leader of this service. term: the revision of the lease. holder: the leader's process."""

    term: Annotated[int, Field(ge=0)]
    holder: Label


class CheckpointRequested(Payload):
    """`checkpoint-requested`: every service records its state at exactly this sequence. reason: why a checkpoint is
    due."""

    reason: Text = ""


class Voided(Payload):
    """`voided`: an operator lets one service skip one message that it cannot fold."""

    seq: Annotated[int, Field(ge=1)]
    service: Label
    reason: Text = ""


class ClusterSummary(Payload):
    """`summarised` and `cluster-summarised`: the use of a cluster, for routing. source_seq: of `cluster-summarised`:
    sequence of the copied fact in FED_UP. number: counts summaries that request an answer by `contact-renewed`; 0:
    no answer is requested. contact: number of the newest summary that was answered."""

    cluster: str = ""
    nodes: int = 0
    gpu_milli_total: int = 0
    gpu_milli_free: int = 0
    jobs_queued: int = 0
    jobs_running: int = 0
    source_seq: int = 0
    number: int = 0
    contact: int = 0


class ClusterDescribed(Payload):
    """`described` of a cluster, by its agent: its properties and capabilities. Also its `state-recorded`.

    backend: "simulated" or "kubernetes". version: of its API server. devices: who picks GPUs, "scheduler" (DRA,
    simulated) or "kubelet" (device plugin). sharing: how a fraction of a GPU is allocated: "any", "none", "mig",
    "mps" or "time-slicing"; with "none" the scheduler refuses jobs that request a fraction. served: optional APIs
    of the cluster that Muster uses. lacking: missing APIs or permissions, and the replacement for each, as text.
    namespace: of the pods of jobs; it may have `{team}`; empty for clusters without pods.
    """

    backend: str = "simulated"
    version: str = ""
    devices: str = "scheduler"
    sharing: str = "any"
    served: tuple[Label, ...] = ()
    lacking: tuple[Text, ...] = ()
    namespace: str = ""


class ClusterState(Payload):
    """`state-recorded` of a cluster, by its scheduler: its newest summary, and queue changes without an answer.
    contact: with the federation; None if it was never requested. pages_read_at: time of the newest reading of a
    job's GPUs that telemetry reported. contact_lost_at: when jobs were last told to end for lack of contact, 0 once
    none is ending."""

    summary: ClusterSummary | None = None
    summarised_at: InstantNs = 0
    wishes: tuple[PendingQueueChange, ...] = ()
    contact: ContactState | None = None
    pages_read_at: InstantNs = 0
    contact_lost_at: InstantNs = 0
