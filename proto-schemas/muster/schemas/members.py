"""The clusters of a federation and where jobs go: `GET /v1/federation`, `muster cluster list`, `muster routes`."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Text, Wire
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.routing import CLUSTERS_MAX, RoutingPolicy

LANES_MAX = 200
"""Sorts of waiting jobs that are shown; there are seldom more than a few."""


class MemberView(Wire):
    """A cluster as the federation has it.

    state, since: as it moved last, 0: never. to: where its jobs go while it drains; by, reason: who drains it, and why.
    jobs, gpus: that were routed there and have not ended. nodes, gpus_total, gpus_free, jobs_queued, jobs_running: as
    it said last. lost_after_s: silent for so long it is given up, 0: never. heard_at: when it was last answered, 0:
    never. gives_up_at: when it is given up if it stays silent, 0: never.
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
    """Jobs of one team, rule and size that wait with the federation. reason: a word; detail: a sentence. oldest_at:
    when the first of them was submitted. leaving: the lost cluster that still has them, "" if none has.
    """

    team: str
    rule: str = ""
    gpus: float = 0.0
    jobs: int = 0
    oldest_at: InstantNs = 0
    reason: str = ""
    detail: Text = ""
    leaving: str = ""


class AskFederation(Wire):
    """To the federation (`federation`, `routes`)."""


class FederationView(Wire):
    """All clusters, and what waits for one."""

    clusters: Annotated[tuple[MemberView, ...], Field(max_length=CLUSTERS_MAX)] = ()
    waiting: Annotated[tuple[WaitingView, ...], Field(max_length=LANES_MAX)] = ()


class RoutesView(Wire):
    """Where jobs go. version: counts the changes, 0: as the settings say. by: who changed it last."""

    policy: RoutingPolicy
    version: int = 0
    by: str = ""


class AskRoutesCheck(Wire):
    """To the federation (`routes-check`): may the policy be so?"""

    policy: RoutingPolicy
    based_on: int = 0


class RoutesCheckAnswer(Wire):
    """field: empty if it may."""

    field: str = ""
    reason: str = ""


class AskAssignment(Wire):
    """To the federation (`assignment`): which cluster has the job?"""

    job_id: JobId


class AssignmentView(Wire):
    """Where a job is. known: the federation remembers it. cluster: "" while none has it. assignment: counts those that
    had it. rule: by which it went there. moving: it was asked back. waiting: why it has none. has_ended: it has.
    """

    known: bool = False
    cluster: str = ""
    assignment: int = 0
    rule: str = ""
    moving: bool = False
    waiting: str = ""
    detail: Text = ""
    has_ended: bool = False
