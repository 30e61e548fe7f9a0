"""Facts that keep the log itself in order: fences, terms, checkpoints, voided messages, summaries."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text
from muster.schemas.facts.federation import ContactState
from muster.schemas.facts.queue import QueueWish


class Fence(Payload):
    """First message of every batch: who appends, and what it had folded when it decided.

    Guarded by the expected last sequence of its own literal subject, so a deposed leader is refused by the broker.
    """

    term: Annotated[int, Field(ge=0)]
    folded_seq: Annotated[int, Field(ge=0)]


class TermStarted(Payload):
    """`term-started`: a new leader of this service. term: the lease's revision. holder: which process."""

    term: Annotated[int, Field(ge=0)]
    holder: Label


class CheckpointRequested(Payload):
    """`checkpoint-requested`: every service records its state at exactly this sequence. reason: why now."""

    reason: Text = ""


class Voided(Payload):
    """`voided`: an operator skips one message for one service, which stopped at it."""

    seq: Annotated[int, Field(ge=1)]
    service: Label
    reason: Text = ""


class ClusterSummary(Payload):
    """`summarised` and `cluster-summarised`: how full a cluster is, for routing.

    source_seq: of `cluster-summarised`: sequence of the copied fact in FED_UP. number: counts those that ask to be
    answered by `contact-renewed`, 0: none is asked for. contact: number of the newest that was answered here.
    """

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
    """`described` of a cluster, by its agent: what it is made of and what it can do. Also its `state-recorded`.

    backend: "simulated" or "kubernetes". version: of its API server. devices: who picks GPUs, "scheduler" (DRA,
    simulated) or "kubelet" (device plugin). sharing: how a part of a GPU is had: "any", "none", "mig", "mps" or
    "time-slicing"; with "none" the scheduler refuses jobs that ask for one. served: optional APIs that it has and
    Muster uses. lacking: what it has not, or may not use, and what is done instead, in words.
    """

    backend: str = "simulated"
    version: str = ""
    devices: str = "scheduler"
    sharing: str = "any"
    served: tuple[Label, ...] = ()
    lacking: tuple[Text, ...] = ()


class ClusterState(Payload):
    """`state-recorded` of a cluster, by its scheduler: what it last said of it, and queue changes not yet answered.

    contact: with the federation; None where it was never asked for. pages_read_at: newest reading of GPUs of a job that
    telemetry told of. contact_lost_at: when jobs were last told to end for want of contact, 0 once none is ending so.
    """

    summary: ClusterSummary | None = None
    summarised_at: InstantNs = 0
    wishes: tuple[QueueWish, ...] = ()
    contact: ContactState | None = None
    pages_read_at: InstantNs = 0
    contact_lost_at: InstantNs = 0
