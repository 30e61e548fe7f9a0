"""The federation's core: folds FED, gives every job its cluster, forwards what is asked, remembers what came back."""

from collections.abc import Callable, Iterator, Sequence

from muster.core import Draft, Fact, Instant
from muster.federation.core import job_wishes, refusals, wishes
from muster.federation.core.routes import Rule, check_rules, clusters_of, route
from muster.federation.core.state import RoutedJob, State
from muster.schemas.facts.control import CheckpointRequested, ClusterSummary
from muster.schemas.facts.job import JobCancelRequested, JobEnded, JobFinished, JobRouted, JobSubmitted, RoutedState
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME

DRAFTS_MAX = 1_024
"""Drafts of one decision; what is left over comes with the next."""

CHECKPOINT_SUBJECT = "fed"
_KINDS_OF_STATE = ("job", "queue", "reservation", "composability", "cluster", "workload")


class FederationCore:
    """The only writer of `routed` and of everything that is forwarded to a cluster.

    A job that was cancelled before it was routed is ended here; afterwards its cluster ends it. One that stands for an
    object of a cluster goes there, whatever the rules say, and also if it is cancelled: the object has to show its end.
    Raises NoRouteError for rules that leave a job without a cluster.
    """

    def __init__(self, *, rules: Sequence[Rule], checkpoint_every_facts: int = 100_000) -> None:
        self.state = State()
        self._rules = check_rules(rules)
        self._checkpoint_every_facts = checkpoint_every_facts
        self._now = Instant(0)
        self._more = False

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        state = self.state
        handler = _HANDLERS.get((fact.kind, fact.name))
        if handler is not None:
            handler(state, fact)
        if fact.name != STATE_NAME:
            state.facts += 1
            state.checkpoint_cause = fact.id

    def decide(self, now: Instant) -> list[Draft]:
        """What should be true and is not yet; the same again until something is folded."""
        self._now = now
        state = self.state
        drafts = list(wishes.forwarded(state, clusters_of(self._rules), most=DRAFTS_MAX))
        drafts += refusals.forwarded(state, most=DRAFTS_MAX)
        self._more = False
        for job_id in tuple(state.dirty):
            if len(drafts) >= DRAFTS_MAX:
                self._more = True
                break
            draft = self._answer(state.jobs[job_id])
            if draft is not None:
                drafts.append(draft)
            else:
                del state.dirty[job_id]
        if state.facts >= self._checkpoint_every_facts:
            reason = CheckpointRequested(reason=f"{state.facts} facts since the last one")
            drafts.append(Draft("log", CHECKPOINT_SUBJECT, "checkpoint-requested", reason, (state.checkpoint_cause,)))
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Nothing here follows from time alone, except what the last decision left over."""
        return self._now if self._more else None

    def snapshot(self) -> Iterator[Draft]:
        """State of jobs and clusters, and what was not yet forwarded."""
        state = self.state
        for cluster, summary in state.clusters.items():
            yield Draft("cluster", cluster, STATE_NAME, summary)
        yield from wishes.snapshot(state)
        yield from refusals.snapshot(state)
        for job_id, record in state.jobs.items():
            if job_id not in state.ended:
                yield Draft("job", job_id, STATE_NAME, record.stored(), trace=record.job.trace)
        for job_id in state.ended:
            record = state.jobs[job_id]
            yield Draft("job", job_id, STATE_NAME, record.stored(), trace=record.job.trace)

    def _answer(self, record: RoutedJob) -> Draft | None:
        """The fact that the job needs now."""
        job = record.job
        if record.phase.is_terminal:
            return None
        if not record.cluster:
            if record.cancel is not None and job.origin is None:
                ended = JobFinished(reason=record.cancel.reason)
                return Draft("job", job.id, "cancelled", ended, (record.last_fact, record.cancel_fact), job.trace)
            cluster = route(job.spec, self._rules) if job.origin is None else job.origin.cluster
            routed = JobRouted(job=job, cluster=cluster)
            return Draft("job", job.id, "routed", routed, (record.last_fact,), job.trace, cluster=cluster)
        if record.cancel is not None and not record.cancel_forwarded:
            causes = (record.cancel_fact,)
            return Draft("job", job.id, "cancel-forwarded", record.cancel, causes, job.trace, cluster=record.cluster)
        return job_wishes.forwarded(record)


def _submitted(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobSubmitted)
    job = fact.payload.job
    if job.id in state.jobs:
        state.anomalies["submitted twice"] += 1
        return
    missing: dict[str, object] = {}
    if not job.submitted_at:
        missing["submitted_at"] = fact.time
    if not job.trace and fact.trace:
        missing["trace"] = fact.trace
    state.jobs[job.id] = RoutedJob(job.model_copy(update=missing) if missing else job, fact.id)
    state.dirty[job.id] = None


def _cancel_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobCancelRequested)
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.cancel is not None:
        state.anomalies["cancel of no live job"] += 1
        return
    record.cancel, record.cancel_fact = fact.payload, fact.id
    state.dirty[record.job.id] = None


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    record = state.jobs.get(fact.subject_id)
    if record is None or record.cluster or record.phase.is_terminal:
        state.anomalies["routed out of turn"] += 1
        return
    record.cluster, record.last_fact = fact.payload.cluster, fact.id
    state.dirty[record.job.id] = None


def _cancel_forwarded(state: State, fact: Fact) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.cancel is None or record.cancel_forwarded:
        state.anomalies["cancel-forwarded out of turn"] += 1
        return
    record.cancel_forwarded, record.last_fact = True, fact.id


def _cancelled(state: State, fact: Fact) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.cluster or record.phase.is_terminal:
        state.anomalies["cancelled out of turn"] += 1
        return
    record.last_fact = fact.id
    state.end(record, Phase.CANCELLED)


def _job_ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobEnded)
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.cluster != fact.payload.cluster:
        state.anomalies["job-ended out of turn"] += 1
        return
    record.last_fact = fact.id
    state.end(record, fact.payload.phase)


def _summarised(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ClusterSummary)
    known = state.clusters.get(fact.subject_id)
    if known is not None and 0 < fact.payload.source_seq <= known.source_seq:
        state.anomalies["summary of the past"] += 1
        return
    state.clusters[fact.subject_id] = fact.payload


def _checkpoint_requested(state: State, _fact: Fact) -> None:
    state.facts = -1  # this one itself is counted afterwards


def _state_recorded(state: State, fact: Fact) -> None:
    match fact.payload:
        case RoutedState() as stored:
            record = RoutedJob(
                job=stored.job,
                last_fact=stored.last_fact,
                cluster=stored.cluster,
                phase=stored.phase,
                cancel=stored.cancel,
                cancel_fact=stored.cancel_fact,
                cancel_forwarded=stored.cancel_forwarded,
                wishes=stored.wishes,
            )
            state.jobs[stored.job_id] = record
            if record.phase.is_terminal:
                state.ended[stored.job_id] = None
            else:
                state.dirty[stored.job_id] = None
        case ClusterSummary() as summary:
            state.clusters[fact.subject_id] = summary
        case _:
            wishes.restore(state, fact.payload)
            refusals.restore(state, fact.payload)


_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "submitted"): _submitted,
    ("job", "cancel-requested"): _cancel_requested,
    ("job", "routed"): _routed,
    ("job", "cancel-forwarded"): _cancel_forwarded,
    ("job", "cancelled"): _cancelled,
    **job_wishes.HANDLERS,
    ("job", "job-ended"): _job_ended,
    **wishes.HANDLERS,
    **refusals.HANDLERS,
    ("cluster", "cluster-summarised"): _summarised,
    ("log", "checkpoint-requested"): _checkpoint_requested,
    **{(kind, STATE_NAME): _state_recorded for kind in _KINDS_OF_STATE},
}
