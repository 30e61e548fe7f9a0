"""Reroutes of jobs: recalled while they have not started, or dropped with their lost cluster."""

from collections.abc import Iterable, Iterator

from muster.core import NS_PER_S, Draft, Fact, Instant
from muster.core.folding import Folds
from muster.federation.core.state import RoutedJob, State
from muster.federation.core.turns import Given, enlist
from muster.schemas.facts.federation import (
    Assignment,
    JobRecalled,
    JobRerouteRefused,
    JobRerouteRequested,
    JobReturned,
    JobReturnRefused,
    Reroute,
)
from muster.schemas.facts.job import JobFinished, JobRouted

FOLDS = Folds[State, None]()


OWED_MAX = 16
"""Maximum number of unconfirmed drops per job; beyond it, the oldest are removed."""


def routed(record: RoutedJob, *, cluster: str, rule: str, lost_after_s: float, age_s: float = 0.0) -> Draft:
    """Return the next assignment of the job."""
    job = record.job
    payload = JobRouted(
        job=job,
        cluster=cluster,
        assignment=record.assignment + 1,
        lost_after_s=lost_after_s if record.may_move else 0.0,
        age_s=age_s,
        rule=rule,
    )
    return Draft("job", job.id, "routed", payload, (record.last_fact,), job.trace, cluster=cluster)


def given(state: State, one: Given, now: Instant) -> Iterator[Draft]:
    """Return `routed` for a waiting job, with its age, preceded by `drop-forwarded` to the lost cluster that has it.
    A cancelled job ends instead."""
    record, (cluster, rule) = one
    if not cluster:
        yield from given_up(record, f"{record.cluster} is lost, and it is cancelled", [cancelled(record)])
        return
    member = state.members.get(cluster)
    age_s = max(0, now - record.job.submitted_at) / NS_PER_S
    draft = routed(
        record, cluster=cluster, rule=rule, lost_after_s=member.lost_after_s if member is not None else 0.0, age_s=age_s
    )
    if not record.cluster:
        yield draft
        return
    yield from given_up(record, f"{record.cluster} is lost, it goes to {cluster}", [draft])


def given_up(record: RoutedJob, reason: str, follows: Iterable[Draft]) -> Iterator[Draft]:
    """Return `drop-forwarded` to the lost cluster of the job, and the facts that are appended together with it."""
    job, together = record.job, f"drop-{record.job.id}-{record.assignment}"
    dropped = JobRecalled(assignment=record.assignment, reason=reason)
    causes = (record.last_fact,)
    yield Draft("job", job.id, "drop-forwarded", dropped, causes, job.trace, together=together, cluster=record.cluster)
    for draft in follows:
        yield Draft(
            draft.kind, draft.subject_id, draft.name, draft.payload, draft.causes, draft.trace,
            together=together, cluster=draft.cluster,
        )  # fmt: skip


def cancelled(record: RoutedJob) -> Draft:
    """Return the end of a cancelled job without a cluster."""
    assert record.cancel is not None
    job, ended = record.job, JobFinished(reason=record.cancel.reason, assignment=max(1, record.assignment))
    return Draft("job", job.id, "cancelled", ended, (record.last_fact, record.cancel_fact), job.trace)


def asked(state: State, record: RoutedJob) -> Draft | None:
    """Return the recall of a job that is to be rerouted, or the refusal; None if neither is due."""
    reroute = record.reroute
    if reroute is None:
        return None
    reason = reroute.refused or _refusal(state, record, reroute)
    if reason:
        refused = JobRerouteRefused(principal=reroute.principal, reason=reason)
        return Draft("job", record.job.id, "reroute-refused", refused, (reroute.fact,), record.job.trace)
    if reroute.forwarded or not record.cluster:
        return None
    recalled = JobRecalled(assignment=record.assignment, reason=reroute.reason)
    return Draft(
        "job", record.job.id, "recall-forwarded", recalled, (reroute.fact,), record.job.trace, cluster=record.cluster
    )


def _refusal(state: State, record: RoutedJob, reroute: Reroute) -> str:
    """Return why the job cannot be rerouted so; "" if it can."""
    if record.cluster and record.cluster not in state.members:
        return f"cluster {record.cluster} has it, and is not in federation.clusters any more: only there can it end"
    if record.job.origin is not None:
        return f"it stands for {record.job.origin.title} of {record.job.origin.cluster}, and runs there"
    if record.cluster and not record.may_move:
        return f"it is pinned to {record.cluster}"
    for name in reroute.to:
        if name not in state.members:
            return f"there is no cluster {name}; the clusters are {', '.join(state.members)}"
        if name == record.cluster:
            return f"it is on {name} already"
    return ""


def leave_if_drained(state: State, record: RoutedJob, fact: Fact) -> None:
    """Reroute a job whose cluster is draining, if it may move and no reroute is under way.

    Also a job that arrived after the start of the drain, by an earlier decision.
    """
    member = state.member_of(record)
    if member is None or member.drain is None or not record.may_move or record.reroute is not None:
        return
    record.reroute = Reroute(fact=fact.id, to=member.drain.to, reason=f"{member.name} is drained")
    state.dirty[record.job.id] = None


@FOLDS.on("job", "reroute-requested", JobRerouteRequested)
def _reroute_requested(state: State, fact: Fact, request: JobRerouteRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies["reroute of no live job"] += 1
        return
    to = (request.to,) if request.to else ()
    forwarded = record.reroute is not None and record.reroute.forwarded
    record.reroute = Reroute(
        fact=fact.id, to=to, principal=request.principal, reason=request.reason, forwarded=forwarded
    )
    state.dirty[record.job.id] = None
    if not record.cluster and record.job.id in state.pending:
        enlist(state, record)


@FOLDS.on("job", "reroute-refused", JobRerouteRefused)
def _reroute_refused(state: State, fact: Fact, _: JobRerouteRefused) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.reroute is None or record.reroute.fact not in fact.causes:
        state.anomalies["reroute-refused out of turn"] += 1
        return
    record.reroute, record.last_fact = None, fact.id
    state.dirty[record.job.id] = None
    leave_if_drained(state, record, fact)
    if not record.cluster and record.job.id in state.pending:
        enlist(state, record)


@FOLDS.on("job", "recall-forwarded", JobRecalled)
def _recall_forwarded(state: State, fact: Fact, _: JobRecalled) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.reroute is None or record.reroute.forwarded:
        state.anomalies["recall-forwarded out of turn"] += 1
        return
    record.reroute = record.reroute.model_copy(update={"forwarded": True})
    record.last_fact = fact.id
    state.dirty[record.job.id] = None


@FOLDS.on("job", "job-returned", JobReturned)
def _returned(state: State, fact: Fact, back: JobReturned) -> None:
    """Queue a handed-back job for another cluster, or settle a drop that a lost cluster confirms."""
    record = state.jobs.get(fact.subject_id)
    if record is None:
        state.anomalies["job-returned of no known job"] += 1
        return
    if record.cluster == back.cluster and record.assignment == back.assignment and not record.phase.is_terminal:
        state.take_back(record)
        record.last_fact = fact.id
        if record.reroute is not None:
            record.reroute = record.reroute.model_copy(update={"forwarded": False, "left": back.cluster})
        state.dirty[record.job.id] = None
        enlist(state, record)
        return
    settle(state, record, back.cluster, back.assignment)


def settle(state: State, record: RoutedJob, cluster: str, number: int) -> None:
    """Record that the cluster has dropped an assignment that is over."""
    over = Assignment(cluster=cluster, number=number)
    if over not in record.owed:
        state.anomalies["word of an assignment that is over"] += 1
        return
    record.owed = tuple(one for one in record.owed if one != over)
    if record.job.id in state.pending:
        enlist(state, record)


@FOLDS.on("job", "job-return-refused", JobReturnRefused)
def _return_refused(state: State, fact: Fact, told: JobReturnRefused) -> None:
    """Keep a job that has started or ended; refuse a requested reroute, but not one by a drain."""
    record = state.jobs.get(fact.subject_id)
    if record is None or record.reroute is None or not record.reroute.forwarded:
        state.anomalies["job-return-refused out of turn"] += 1
        return
    if (record.cluster, record.assignment) != (told.cluster, told.assignment):
        state.anomalies["job-return-refused out of turn"] += 1
        return
    if record.reroute.principal:
        record.reroute = record.reroute.model_copy(update={"refused": told.reason or "it has started"})
        state.dirty[record.job.id] = None
    else:
        record.reroute = None


@FOLDS.on("job", "drop-forwarded", JobRecalled)
def _drop_forwarded(state: State, fact: Fact, _: JobRecalled) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or not record.cluster or record.phase.is_terminal:
        state.anomalies["drop-forwarded out of turn"] += 1
        return
    owed = Assignment(cluster=record.cluster, number=record.assignment)
    state.take_back(record)
    record.owed = (*record.owed, owed)[-OWED_MAX:]
    record.last_fact = fact.id
    state.dirty[record.job.id] = None
    enlist(state, record)
