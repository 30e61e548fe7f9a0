"""Answers to questions, computed from the core's state. A question changes nothing and is never a fact."""

from muster.core import Core, Instant
from muster.federation.core.clusters import GREETING
from muster.federation.core.core import FederationCore
from muster.federation.core.pending import PendingQueue
from muster.federation.core.policy import refusal
from muster.federation.core.routes import GPU_MILLI, Proposed, Route
from muster.federation.core.state import Member, RoutedJob, State
from muster.federation.core.turns import (
    LEASED,
    NO_CLUSTER,
    OVERFLOW,
    SETTLING,
    TEAM_LIMIT,
    UNKNOWN_CLUSTER,
    judge,
    limits_of,
)
from muster.schemas.base import TEXT_CHARS_MAX, Wire
from muster.schemas.facts.federation import ClusterPhase, RoutingChangeRequested
from muster.schemas.members import (
    LANES_MAX,
    AskAssignment,
    AskRoutesCheck,
    AssignmentView,
    FederationView,
    MemberView,
    RoutesCheckAnswer,
    RoutesView,
    WaitingView,
)

_GOES = "turn"


def answer_federation(core: Core, _ask: Wire, now: Instant) -> FederationView:
    """Answer `federation`: all clusters, and the jobs that wait for one."""
    state = _state(core)
    stranded = _stranded(state)
    queues = sorted(state.pending.queues.values(), key=lambda queue: queue.jobs[0])[: LANES_MAX - len(stranded)]
    return FederationView(
        clusters=tuple(_member(state, member) for member in state.members.values()),
        waiting=(*stranded, *(_waiting(state, queue, now) for queue in queues)),
    )


def answer_routes(core: Core, _ask: Wire, _now: Instant) -> RoutesView:
    """Answer `routes`: the current policy."""
    state = _state(core)
    return RoutesView(policy=state.policy, version=state.policy_version, by=state.policy_by)


def answer_routes_check(core: Core, ask: Wire, _now: Instant) -> RoutesCheckAnswer:
    """Answer `routes-check`: whether the policy is accepted."""
    assert isinstance(ask, AskRoutesCheck)
    asked = RoutingChangeRequested(policy=ask.policy, principal="", based_on=ask.based_on)
    field, reason = refusal(_state(core), asked)
    return RoutesCheckAnswer(field=field, reason=reason)


def answer_assignment(core: Core, ask: Wire, now: Instant) -> AssignmentView:
    """Answer `assignment`: the cluster of the job, or why it has none."""
    assert isinstance(ask, AskAssignment)
    state = _state(core)
    record = state.jobs.get(ask.job_id)
    if record is None:
        return AssignmentView()
    queue = state.pending.of(ask.job_id)
    waiting = _waiting(state, queue, now) if queue is not None and not record.phase.is_terminal else None
    if ask.job_id in state.stranded:
        waiting = _without_member(state, record, jobs=1)
    return AssignmentView(
        known=True,
        cluster=record.cluster,
        assignment=record.assignment,
        rule=record.rule,
        moving=record.reroute is not None and record.reroute.forwarded,
        waiting=waiting.reason if waiting is not None else "",
        detail=waiting.detail if waiting is not None else "",
        has_ended=record.phase.is_terminal,
    )


def _member(state: State, member: Member) -> MemberView:
    summary, drain = state.clusters.get(member.name), member.drain
    gives_up_at = member.gives_up_at()
    view = MemberView(
        name=member.name,
        state=member.phase,
        since=member.since,
        to=drain.to if drain is not None else (),
        by=drain.principal if drain is not None else "",
        reason=drain.reason if drain is not None else "",
        jobs=len(member.jobs),
        gpus=member.milli / GPU_MILLI,
        lost_after_s=member.lost_after_s,
        heard_at=member.answered_at if member.answered > GREETING else 0,
        gives_up_at=gives_up_at if gives_up_at is not None and member.phase is not ClusterPhase.LOST else 0,
    )
    if summary is None:
        return view
    return view.model_copy(
        update={
            "nodes": summary.nodes,
            "gpus_total": summary.gpu_milli_total / GPU_MILLI,
            "gpus_free": summary.gpu_milli_free / GPU_MILLI,
            "jobs_queued": summary.jobs_queued,
            "jobs_running": summary.jobs_running,
        }
    )


def _waiting(state: State, queue: PendingQueue, now: Instant) -> WaitingView:
    limits, _ = limits_of(state.policy)
    submitted_at, job_id = queue.jobs[0]
    found = judge(state, state.jobs[job_id], queue.key, limits=limits, proposed=Proposed(), now=now)
    reason = _GOES if isinstance(found, Route) else found
    return WaitingView(
        team=queue.key.team,
        rule=queue.key.rule,
        gpus=queue.key.milli / GPU_MILLI,
        jobs=len(queue.jobs),
        oldest_at=submitted_at,
        reason=reason,
        detail=_detail(state, queue, reason, limits),
        leaving=queue.key.left,
    )


def _stranded(state: State) -> tuple[WaitingView, ...]:
    """Return all jobs whose cluster is not a member as one row, described by the first of them."""
    first = next(iter(state.stranded), None)
    return () if first is None else (_without_member(state, state.jobs[first], jobs=len(state.stranded)),)


def _without_member(state: State, record: RoutedJob, *, jobs: int) -> WaitingView:
    job = record.job
    named = record.cluster or (job.origin.cluster if job.origin is not None else "")
    there = f"federation.clusters has {', '.join(state.members)}"
    if record.cluster:
        detail = f"it was assigned to cluster {named}, which is no longer a member; {there}"
    else:
        detail = f"it may run only in cluster {named}, which is not a member; {there}"
    return WaitingView(
        team=job.spec.team,
        gpus=record.milli / GPU_MILLI,
        jobs=jobs,
        oldest_at=job.submitted_at,
        reason=UNKNOWN_CLUSTER,
        detail=detail[:TEXT_CHARS_MAX],
        leaving=record.cluster,
    )


def _detail(state: State, queue: PendingQueue, reason: str, limits: dict[str, int]) -> str:
    """Return the reason as a sentence with numbers."""
    key = queue.key
    if reason == TEAM_LIMIT:
        used, limit = state.used.get(key.team, 0) / GPU_MILLI, limits.get(key.team, 0) / GPU_MILLI
        needs = key.milli / GPU_MILLI
        return (
            f"team {key.team} uses {used:g} of its limit of {limit:g} GPUs over all clusters; the job needs {needs:g}"
        )
    if reason == OVERFLOW:
        return f"every cluster of rule {key.rule} overflows, and the rule says that jobs wait"
    if reason == NO_CLUSTER:
        return "no cluster that the job may use accepts jobs: all are drained or lost"
    if reason == SETTLING:
        return f"cluster {key.left} is lost and may rejoin soon, as the only other cluster for the job has just done"
    if reason == LEASED:
        return f"cluster {key.left} is lost, and may still run the job"
    return "the job is routed next"


def _state(core: Core) -> State:
    assert isinstance(core, FederationCore)
    return core.state
