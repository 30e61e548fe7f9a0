"""Contact with the clusters, without equal clocks: when it is renewed, when a silent cluster is lost, and when not.

A cluster numbers its summaries. `contact-renewed` with a number says that the federation was alive after it had folded
that summary, and lets the cluster's jobs run for `lost_after_s` less the margin after the cluster *wrote* it, by the
cluster's clock. The federation gives the jobs to others `lost_after_s` and the margin after it *answered*, by its own.
It answered after the summary was written, so the cluster's time is over first, by twice the margin, however long either
message was on its way; only what the clocks' rates differ by in that time eats into it. (The same argument as for the
leases of Gray and Cheriton, SOSP 1989, with the grant in the reply.)

The federation stops answering a cluster that does not say that it gets the answers: else a link that is cut in one
direction would keep the jobs there for ever.
"""

from collections.abc import Callable, Collection, Iterator

from muster.core import NS_PER_S, Draft, Fact, Instant, after
from muster.federation.core.members import Member
from muster.federation.core.state import State
from muster.federation.core.turns import enlist
from muster.schemas.facts.control import ClusterSummary, TermStarted
from muster.schemas.facts.federation import (
    CONTACTS_MAX,
    ClusterMoved,
    ClusterPhase,
    ContactRenewed,
    Heartbeat,
)

GREETING = 1
"""A number that no summary has: the first answer lets nothing run, and has the cluster number its summaries."""


def summarised(state: State, member: Member, summary: ClusterSummary) -> None:
    """A summary was folded: it may say which answer the cluster has."""
    member.came = member.went = 0
    state.lanes.stir()
    got = [renewal for renewal in member.renewals if renewal.number <= summary.contact]
    if got:
        member.confirmed, member.confirmed_at = got[-1].number, got[-1].at
        member.renewals = member.renewals[len(got) :]


def drafts(state: State, now: Instant, *, margin_s: float, held_up: Collection[str]) -> Iterator[Draft]:
    """`lost`, `returned` and `contact-renewed` as they are due.

    held_up: lost clusters of which a job is being given to others, or would be if its time there were over.
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
    """When the first cluster is given up, if nothing is heard."""
    moments = (
        member.gives_up_at()
        for member in state.members.values()
        if member.phase in (ClusterPhase.ACTIVE, ClusterPhase.DRAINING)
    )
    return min((moment for moment in moments if moment is not None), default=None)


def _is_deaf(member: Member, now: Instant) -> bool:
    """Whether it has not said for `lost_after_s` that it gets the answers. One that is lost or drained is always
    answered: its jobs are gone, or nobody else takes them.
    """
    if member.phase in (ClusterPhase.LOST, ClusterPhase.DRAINED) or not member.renewals:
        return False
    return now - member.renewals[0].at > member.lost_after_s * NS_PER_S


def _moved(member: Member, name: str, reason: str) -> Draft:
    moved = ClusterMoved(reason=reason, jobs=len(member.jobs), to=member.drain.to if member.drain else ())
    causes = (member.fact,) if member.fact else ()
    return Draft("cluster", member.name, name, moved, causes)


def _renewed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ContactRenewed)
    member, renewed = state.members.get(fact.subject_id), fact.payload
    if member is None or renewed.number <= member.answered:
        state.anomalies["contact-renewed out of turn"] += 1
        return
    member.answered, member.answered_at = renewed.number, fact.time
    kept = member.renewals
    if len(kept) >= CONTACTS_MAX:
        kept = (kept[0], *kept[2:])  # the oldest says for how long the cluster has been deaf
    member.renewals = (*kept, Heartbeat(number=renewed.number, at=fact.time))
    member.grant(after(fact.time, renewed.lost_after_s + renewed.margin_s))
    state.lanes.stir()


def _lost(state: State, fact: Fact) -> None:
    """Its jobs want another cluster; what it says of answers that were given before counts for nothing."""
    member = state.members.get(fact.subject_id)
    if member is None:
        state.anomalies["lost out of turn"] += 1
        return
    member.move(ClusterPhase.LOST, at=fact.time, fact=fact.id)
    member.renewals, member.confirmed = (), 0
    strand(state, member)


def strand(state: State, member: Member) -> None:
    """Jobs of a lost cluster that others may have wait for one of these."""
    for job_id in member.jobs:
        record = state.jobs[job_id]
        if record.lost_after_s:
            enlist(state, record)
    state.lanes.stir()


def _returned(state: State, fact: Fact) -> None:
    member = state.members.get(fact.subject_id)
    if member is None or member.phase is not ClusterPhase.LOST:
        state.anomalies["returned out of turn"] += 1
        return
    member.move(ClusterPhase.ACTIVE if member.drain is None else ClusterPhase.DRAINING, at=fact.time, fact=fact.id)
    member.returned_at = fact.time
    for job_id in member.jobs:
        state.lanes.remove(job_id)
        state.dirty[job_id] = None
    state.lanes.stir()


def _term_started(state: State, fact: Fact) -> None:
    """A new leader: while there was none nobody was answered, so nobody was silent. Later is always safe."""
    if fact.writer != "federation" or not isinstance(fact.payload, TermStarted):
        return
    for member in state.members.values():
        if member.granted_until:
            member.grant(after(fact.time, 2 * member.lost_after_s))


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("cluster", "contact-renewed"): _renewed,
    ("cluster", "lost"): _lost,
    ("cluster", "returned"): _returned,
    ("log", "term-started"): _term_started,
}
