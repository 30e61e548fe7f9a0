"""Contact with clusters (in contact, silent, lost, rejoined) without equal clocks; drain and resume by operators."""

from collections.abc import Collection, Iterator

from muster.core import NS_PER_S, Draft, Fact, Instant, after
from muster.core.folding import Folds
from muster.federation.core.reroutes import leave_if_drained
from muster.federation.core.state import Member, State
from muster.federation.core.turns import enlist
from muster.schemas.facts.control import ClusterSummary, TermStarted
from muster.schemas.facts.federation import (
    CONTACTS_MAX,
    ClusterDrainRequested,
    ClusterMoved,
    ClusterPhase,
    ClusterResumeRequested,
    ContactRenewed,
    Heartbeat,
    MemberState,
    PendingClusterChange,
)
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None]()


GREETING = 1
"""A number that no summary has: the first answer permits no runs, and has the cluster number its summaries."""


def summarised(state: State, member: Member, summary: ClusterSummary) -> None:
    """Record a folded summary: it may confirm an answer to the cluster."""
    member.came = member.went = 0
    state.pending.mark_dirty()
    got = [renewal for renewal in member.renewals if renewal.number <= summary.contact]
    if got:
        member.confirmed, member.confirmed_at = got[-1].number, got[-1].at
        member.renewals = member.renewals[len(got) :]


def contact_drafts(state: State, now: Instant, *, margin_s: float, held_up: Collection[str]) -> Iterator[Draft]:
    """Return `lost`, `returned` and `contact-renewed` as they are due.

    held_up: lost clusters with a job that is being rerouted, or would be once its lease there is over.
    """
    for member in state.members.values():
        until = member.gives_up_at()
        if until is None and not member.lost_after_s:
            continue
        if until is not None and now >= until and member.phase in (ClusterPhase.ACTIVE, ClusterPhase.DRAINING):
            yield _moved(member, "lost", f"silent for {member.lost_after_s:g} s and the margin")
            continue
        if member.phase is ClusterPhase.LOST and member.confirmed:
            yield _moved(member, "returned", "it answers again")
            continue
        if not member.answered:
            yield _renewal(member, GREETING, margin_s)
            continue
        summary = state.clusters.get(member.name)
        is_asked = summary is not None and summary.number > member.answered
        if summary is None or not is_asked or member.name in held_up or _is_deaf(member, now):
            continue
        yield _renewal(member, summary.number, margin_s)


def _renewal(member: Member, number: int, margin_s: float) -> Draft:
    renewed = ContactRenewed(number=number, lost_after_s=member.lost_after_s, margin_s=margin_s)
    return Draft("cluster", member.name, "contact-renewed", renewed, cluster=member.name)


def next_loss(state: State) -> Instant | None:
    """Return when the first cluster is lost if no contact is renewed."""
    moments = (
        member.gives_up_at()
        for member in state.members.values()
        if member.phase in (ClusterPhase.ACTIVE, ClusterPhase.DRAINING)
    )
    return min((moment for moment in moments if moment is not None), default=None)


def _is_deaf(member: Member, now: Instant) -> bool:
    """Return whether it has not confirmed an answer for `lost_after_s`. A lost or drained cluster is always
    answered: its jobs are rerouted, or there are none to reroute."""
    if member.phase in (ClusterPhase.LOST, ClusterPhase.DRAINED) or not member.renewals:
        return False
    return now - member.renewals[0].at > member.lost_after_s * NS_PER_S


def _moved(member: Member, name: str, reason: str) -> Draft:
    moved = ClusterMoved(reason=reason, jobs=len(member.jobs), to=member.drain.to if member.drain else ())
    causes = (member.fact,) if member.fact else ()
    return Draft("cluster", member.name, name, moved, causes)


@FOLDS.on("cluster", "contact-renewed", ContactRenewed)
def _renewed(state: State, fact: Fact, renewed: ContactRenewed) -> None:
    member = state.members.get(fact.subject_id)
    if member is None or renewed.number <= member.answered:
        state.anomalies["contact-renewed out of turn"] += 1
        return
    member.answered, member.answered_at = renewed.number, fact.time
    kept = member.renewals
    if len(kept) >= CONTACTS_MAX:
        kept = (kept[0], *kept[2:])  # the oldest shows for how long the cluster has confirmed nothing
    member.renewals = (*kept, Heartbeat(number=renewed.number, at=fact.time))
    member.grant(after(fact.time, renewed.lost_after_s + renewed.margin_s))
    state.pending.mark_dirty()


@FOLDS.on("cluster", "lost", ClusterMoved)
def _lost(state: State, fact: Fact, _: ClusterMoved) -> None:
    """Queue its jobs for other clusters; its confirmations of earlier answers no longer count."""
    member = state.members.get(fact.subject_id)
    if member is None:
        state.anomalies["lost out of turn"] += 1
        return
    member.move(ClusterPhase.LOST, at=fact.time, fact=fact.id)
    member.renewals, member.confirmed = (), 0
    strand(state, member)


def strand(state: State, member: Member) -> None:
    """Queue the jobs of a lost cluster that may be rerouted."""
    for job_id in member.jobs:
        record = state.jobs[job_id]
        if record.lost_after_s:
            enlist(state, record)
    state.pending.mark_dirty()


@FOLDS.on("cluster", "returned", ClusterMoved)
def _cluster_returned(state: State, fact: Fact, _: ClusterMoved) -> None:
    member = state.members.get(fact.subject_id)
    if member is None or member.phase is not ClusterPhase.LOST:
        state.anomalies["returned out of turn"] += 1
        return
    member.move(ClusterPhase.ACTIVE if member.drain is None else ClusterPhase.DRAINING, at=fact.time, fact=fact.id)
    member.returned_at = fact.time
    for job_id in member.jobs:
        state.pending.remove(job_id)
        state.dirty[job_id] = None
    state.pending.mark_dirty()


@FOLDS.on("log", "term-started", TermStarted)
def _term_started(state: State, fact: Fact, _: TermStarted) -> None:
    """Extend all leases at a change of leaders: without a leader, no cluster was answered. A later end is always
    safe."""
    if fact.writer != "federation":
        return
    for member in state.members.values():
        if member.granted_until:
            member.grant(after(fact.time, 2 * member.lost_after_s))


def drain_drafts(state: State) -> Iterator[Draft]:
    """Answer the oldest request for every cluster, and return `drained` for draining clusters without jobs."""
    for strange in state.strange_requests.values():
        refused = ClusterMoved(principal=_principal(strange), reason=_no_cluster(state, strange.cluster))
        name = "drain-refused" if strange.drain is not None else "resume-refused"
        yield Draft("cluster", strange.cluster, name, refused, (strange.fact,), strange.trace)
    for member in state.members.values():
        request = next(iter(member.wishes), None)
        if request is not None:
            yield _answer(state, member, request)
        elif member.phase is ClusterPhase.DRAINING and not member.jobs:
            drained = ClusterMoved(to=member.drain.to if member.drain is not None else ())
            yield Draft("cluster", member.name, "drained", drained, (member.fact,))


def _principal(request: PendingClusterChange) -> str:
    asked = request.drain or request.resume
    return asked.principal if asked is not None else ""


def _no_cluster(state: State, name: str) -> str:
    return f"there is no cluster {name}; the clusters are {', '.join(state.members)}"


def _answer(state: State, member: Member, request: PendingClusterChange) -> Draft:
    causes = (request.fact,)
    if request.drain is not None:
        asked = request.drain
        reason = _refusal(state, member, asked)
        name, words = ("drain-refused", reason) if reason else ("draining", asked.reason)
        moved = ClusterMoved(principal=asked.principal, reason=words, to=asked.to, jobs=len(member.jobs))
        return Draft("cluster", member.name, name, moved, causes, request.trace)
    assert request.resume is not None, f"{request.fact}: a request for a cluster is a drain or a resume"
    name, words = "resumed", request.resume.reason
    if member.drain is None:
        name, words = "resume-refused", f"the cluster is {member.phase.value}, and not drained"
    moved = ClusterMoved(principal=request.resume.principal, reason=words, jobs=len(member.jobs))
    return Draft("cluster", member.name, name, moved, causes, request.trace)


def _refusal(state: State, member: Member, asked: ClusterDrainRequested) -> str:
    """Return why the cluster cannot be drained so; "" if it can."""
    for name in asked.to:
        if name == member.name:
            return f"to: {name} is the cluster itself; use other clusters, or none"
        if name not in state.members:
            return f"to: {_no_cluster(state, name)}"
    return ""


def standing_snapshot(state: State) -> Iterator[Draft]:
    """Return the state of clusters beyond the settings, and the requests for unknown clusters."""
    for member in state.members.values():
        if not member.is_at_home:
            yield Draft("member", member.name, STATE_NAME, member.as_body(MemberState))
    strange: dict[str, list[PendingClusterChange]] = {}
    for request in state.strange_requests.values():
        strange.setdefault(request.cluster, []).append(request)
    for name, asked in strange.items():
        yield Draft("member", name, STATE_NAME, MemberState(wishes=tuple(asked)))


@FOLDS.on("member", STATE_NAME, MemberState)
def _load_member(state: State, fact: Fact, stored: MemberState) -> None:
    """Restore a cluster from a checkpoint; a cluster that is no longer a member is ignored."""
    member = state.members.get(fact.subject_id)
    if member is None:
        state.strange_requests.update({request.fact: request for request in stored.wishes})
        return
    restored = Member.restored(stored, name=fact.subject_id, lost_after_s=member.lost_after_s)
    state.members[fact.subject_id] = restored
    if restored.phase is ClusterPhase.LOST:
        strand(state, restored)


@FOLDS.on("cluster", "drain-requested", ClusterDrainRequested)
def _drain_requested(state: State, fact: Fact, asked: ClusterDrainRequested) -> None:
    _keep(state, PendingClusterChange(fact=fact.id, cluster=fact.subject_id, drain=asked, trace=fact.trace))


@FOLDS.on("cluster", "resume-requested", ClusterResumeRequested)
def _resume_requested(state: State, fact: Fact, asked: ClusterResumeRequested) -> None:
    _keep(state, PendingClusterChange(fact=fact.id, cluster=fact.subject_id, resume=asked, trace=fact.trace))


def _keep(state: State, request: PendingClusterChange) -> None:
    member = state.members.get(request.cluster)
    if member is None:
        state.strange_requests[request.fact] = request
    else:
        member.wishes = (*member.wishes, request)


def _answered(state: State, fact: Fact) -> Member | None:
    """Return the member of the fact, after the removal of the answered request."""
    member = state.members.get(fact.subject_id)
    for cause in fact.causes:
        state.strange_requests.pop(cause, None)
    if member is not None and member.wishes:
        member.wishes = tuple(request for request in member.wishes if request.fact not in fact.causes)
    return member


@FOLDS.on("cluster", "draining", ClusterMoved)
def _draining(state: State, fact: Fact, moved: ClusterMoved) -> None:
    member = _answered(state, fact)
    if member is None:
        state.anomalies["draining out of turn"] += 1
        return
    member.drain = ClusterDrainRequested(principal=moved.principal, reason=moved.reason, to=moved.to)
    if member.phase is not ClusterPhase.LOST:
        member.move(ClusterPhase.DRAINING, at=fact.time, fact=fact.id)
    for job_id in member.jobs:
        leave_if_drained(state, state.jobs[job_id], fact)
    state.pending.mark_dirty()


@FOLDS.on("cluster", "drained", ClusterMoved)
def _drained(state: State, fact: Fact, _: ClusterMoved) -> None:
    member = state.members.get(fact.subject_id)
    if member is None or member.phase is not ClusterPhase.DRAINING:
        state.anomalies["drained out of turn"] += 1
        return
    member.move(ClusterPhase.DRAINED, at=fact.time, fact=fact.id)


@FOLDS.on("cluster", "resumed", ClusterMoved)
def _resumed(state: State, fact: Fact, _: ClusterMoved) -> None:
    """Resume a cluster. Jobs that were not recalled yet stay."""
    member = _answered(state, fact)
    if member is None or member.drain is None:
        state.anomalies["resumed out of turn"] += 1
        return
    member.drain, member.renewals = None, ()  # confirmations count anew from here on
    if member.phase is not ClusterPhase.LOST:
        member.move(ClusterPhase.ACTIVE, at=fact.time, fact=fact.id)
    for job_id in member.jobs:
        record = state.jobs[job_id]
        if record.reroute is not None and not record.reroute.forwarded and not record.reroute.principal:
            record.reroute = None
    state.pending.mark_dirty()


@FOLDS.on("cluster", ("drain-refused", "resume-refused"), ClusterMoved)
def _refused(state: State, fact: Fact, _: ClusterMoved) -> None:
    _answered(state, fact)
