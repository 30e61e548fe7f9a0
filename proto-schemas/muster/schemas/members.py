"""Views of a federation and its routing: `GET /v1/federation`, `muster cluster list`, `muster routes`."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Text, Wire
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.routing import CLUSTERS_MAX, RoutingPolicy

LANES_MAX = 200
"""Maximum number of shown pending queues."""


class MemberView(Wire):
    """A cluster as the federation has it.

    state, since: of its last change, 0: never. to: target clusters of its jobs while it is draining; by, reason: of
    the drain. jobs, gpus: routed there and not ended. nodes, gpus_total, gpus_free, jobs_queued, jobs_running: of
    its last summary. lost_after_s: silence after which it is lost, 0: never. heard_at: last contact, 0: never.
    gives_up_at: when it is lost if it stays silent, 0: never.
    """

    name: str
    state: ClusterPhase = ClusterPhase.ACTIVE
    since: InstantNs = 0
    to: tuple[str, ...] = ()
    by: str = ""
    reason: Text = ""
    jobs: int = 0
    gpus: float = 0.0
    nodes: int = 0
    gpus_total: float = 0.0
    gpus_free: float = 0.0
    jobs_queued: int = 0
    jobs_running: int = 0
    lost_after_s: float = 0.0
    heard_at: InstantNs = 0
    gives_up_at: InstantNs = 0


class WaitingView(Wire):
    """Jobs of one team, rule and size that wait with the federation. reason: a code; detail: a sentence. oldest_at:
    when the first of them was submitted. leaving: the lost cluster that still has them, "" for none."""

    team: str
    rule: str = ""
    gpus: float = 0.0
    jobs: int = 0
    oldest_at: InstantNs = 0
    reason: str = ""
    detail: Text = ""
    leaving: str = ""


class AskFederation(Wire):
    """Question to the federation (`federation`, `routes`)."""


class FederationView(Wire):
    """All clusters, and the jobs that wait for one."""

    clusters: Annotated[tuple[MemberView, ...], Field(max_length=CLUSTERS_MAX)] = ()
    waiting: Annotated[tuple[WaitingView, ...], Field(max_length=LANES_MAX)] = ()


class RoutesView(Wire):
    """The routing policy. version: counts the changes, 0: as in the settings. by: principal of the last change."""

    policy: RoutingPolicy
    version: int = 0
    by: str = ""


class AskRoutesCheck(Wire):
    """Question to the federation (`routes-check`): whether this policy is accepted."""

    policy: RoutingPolicy
    based_on: int = 0


class RoutesCheckAnswer(Wire):
    """Answer of `routes-check`. field: empty if the policy is accepted."""

    field: str = ""
    reason: str = ""


class AskAssignment(Wire):
    """Question to the federation (`assignment`): the cluster of a job."""

    job_id: JobId


class AssignmentView(Wire):
    """Assignment of a job. known: the federation has the job. cluster: "" without one. assignment: counts its
    clusters. rule: by which it was routed. moving: it was recalled. waiting: why it has no cluster. has_ended: the
    job has ended."""

    known: bool = False
    cluster: str = ""
    assignment: int = 0
    rule: str = ""
    moving: bool = False
    waiting: str = ""
    detail: Text = ""
    has_ended: bool = False
