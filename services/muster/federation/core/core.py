"""The federation's core: folds FED, routes jobs, forwards requests, and remembers results."""

from collections.abc import Iterator, Sequence

from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.federation.core import clusters, fold_jobs, policy, requests, reroutes
from muster.federation.core.state import Member, MemberPlan, RoutedJob, State
from muster.federation.core.turns import Turns, enlist, take_turns
from muster.schemas.facts.control import CheckpointRequested, ClusterSummary
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.facts.job import RoutedState
from muster.schemas.registry import STATE_NAME
from muster.schemas.routing import RoutingPolicy

FOLDS = Folds[State, None](fold_jobs.FOLDS, reroutes.FOLDS, requests.FOLDS, clusters.FOLDS, policy.FOLDS)


DRAFTS_MAX = 1_024
"""Maximum number of drafts of one decision; the rest follows in the next one."""

CHECKPOINT_SUBJECT = "fed"


class FederationCore:
    """The only writer of `routed` and of everything that is forwarded to a cluster.

    members: the clusters, in order of preference. policy: routing policy until it is changed. margin_s: see
    `contact`. A job that is cancelled before it is assigned is ended here; otherwise its cluster ends it. A job of
    a Kubernetes object is always assigned to that object's cluster, also if it is cancelled: the object has to show
    its end. Raises ValueError without members, or for rules with unknown clusters.
    """

    def __init__(
        self,
        *,
        members: Sequence[MemberPlan],
        policy: RoutingPolicy | None = None,
        margin_s: float = 0.0,
        checkpoint_every_facts: int = 100_000,
    ) -> None:
        if not members:
            raise ValueError("members: name at least one cluster")
        self.state = State(policy=policy or RoutingPolicy())
        self.state.members = {plan.name: Member(name=plan.name, lost_after_s=plan.lost_after_s) for plan in members}
        strange = [name for name in self.state.policy.clusters if name not in self.state.members]
        if strange:
            raise ValueError(f"policy: no cluster {strange[0]}; there are {', '.join(self.state.members)}")
        self._margin_s = margin_s
        self._checkpoint_every_facts = checkpoint_every_facts
        self._now = Instant(0)
        self._more = False
        self._leased: Instant | None = None

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        state = self.state
        if fact in FOLDS and requests.is_first(state, fact):
            FOLDS.apply(state, fact)
        if fact.name != STATE_NAME:
            state.facts += 1
            state.checkpoint_cause = fact.id

    def decide(self, now: Instant) -> list[Draft]:
        """Return the missing facts; the same ones again until one of them is folded."""
        self._now = now
        state = self.state
        drafts = list(requests.forwarded(state, tuple(state.members), most=DRAFTS_MAX))
        drafts += requests.refusals_forwarded(state, most=DRAFTS_MAX)
        drafts += clusters.drain_drafts(state)
        drafts += policy.drafts(state)
        self._more = False
        for job_id in tuple(state.dirty):
            if len(drafts) >= DRAFTS_MAX:
                self._more = True
                break
            found = self._answer(state.jobs[job_id])
            if found:
                drafts += found
            else:
                del state.dirty[job_id]
        held_up = self._give_turns(now, drafts)
        if any(member.lost_after_s for member in state.members.values()):
            drafts += clusters.contact_drafts(state, now, margin_s=self._margin_s, held_up=held_up)
        if state.facts >= self._checkpoint_every_facts:
            reason = CheckpointRequested(reason=f"{state.facts} facts since the last one")
            drafts.append(Draft("log", CHECKPOINT_SUBJECT, "checkpoint-requested", reason, (state.checkpoint_cause,)))
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return when a silent cluster is lost or its jobs may be rerouted; or now, if drafts are left over."""
        if self._more:
            return self._now
        moments = [moment for moment in (clusters.next_loss(self.state), self._leased) if moment is not None]
        return min(moments, default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Return the state of routing, clusters and jobs, and the requests that are not forwarded yet."""
        state = self.state
        yield from policy.snapshot(state)
        yield from clusters.standing_snapshot(state)
        for cluster, summary in state.clusters.items():
            yield Draft("cluster", cluster, STATE_NAME, summary)
        yield from requests.snapshot(state)
        yield from requests.refusals_snapshot(state)
        yield from requests.folded_snapshot(state)
        for job_id, record in state.jobs.items():
            if job_id not in state.ended:
                yield Draft("job", job_id, STATE_NAME, record.as_body(RoutedState), trace=record.job.trace)
        for job_id in state.ended:
            record = state.jobs[job_id]
            yield Draft("job", job_id, STATE_NAME, record.as_body(RoutedState), trace=record.job.trace)

    def _give_turns(self, now: Instant, drafts: list[Draft]) -> set[str]:
        """Route waiting jobs. Return the lost clusters whose jobs are rerouted now or soon."""
        state, self._leased = self.state, None
        if not len(state.pending):
            return set()
        room = DRAFTS_MAX - len(drafts)
        turns = take_turns(state, now, most=room) if room > 0 else Turns(has_more=True)
        for one in turns.given:
            drafts += reroutes.given(state, one, now)
        self._more = self._more or turns.has_more
        moments = [*turns.leased.values(), *filter(None, (turns.settles_at,))]
        self._leased = Instant(min(moments)) if moments else None
        held_up = {one.record.cluster for one in turns.given if one.record.cluster}
        return held_up | set(turns.leased)

    def _answer(self, record: RoutedJob) -> list[Draft]:
        """Return the facts that the job needs now; none if it has to wait."""
        job, state = record.job, self.state
        if record.phase.is_terminal:
            return []
        if job.id in state.stranded:
            return self._stranded(record)
        if not record.cluster:
            return self._unrouted(record)
        if record.cancel is not None and not record.cancel_forwarded:
            causes = (record.cancel_fact,)
            name = "cancel-forwarded"
            return [Draft("job", job.id, name, record.cancel, causes, job.trace, cluster=record.cluster)]
        draft = reroutes.asked(state, record) or fold_jobs.request_forwarded(record)
        return [draft] if draft is not None else []

    def _stranded(self, record: RoutedJob) -> list[Draft]:
        """Return the facts of a job whose cluster is not a member and cannot receive facts.

        It ends if it was cancelled before that cluster had it. Otherwise it waits, with its requests, until the
        cluster is a member again: only that cluster knows whether the job runs.
        """
        if not record.cluster and record.cancel is not None:
            return [reroutes.cancelled(record)]
        refused = reroutes.asked(self.state, record)
        return [refused] if refused is not None else []

    def _unrouted(self, record: RoutedJob) -> list[Draft]:
        """Return the facts of a job without a cluster: its end if cancelled, or its route if there is only one."""
        job, state = record.job, self.state
        if record.cancel is not None and job.origin is None:
            return [reroutes.cancelled(record)]
        refused = reroutes.asked(state, record)
        if refused is not None:
            return [refused]
        if job.id in state.pending:
            return []
        if job.origin is not None:
            return [reroutes.routed(record, cluster=job.origin.cluster, rule="", lost_after_s=0.0)]
        if not record.assignment and record.reroute is None and not (state.policy.rules or state.policy.teams):
            open_ones = (m for m in state.members.values() if m.phase is ClusterPhase.ACTIVE)
            member = next(open_ones, None)
            if member is not None and len(state.pending) == 0 and not member.is_silent(self._now):
                return [reroutes.routed(record, cluster=member.name, rule="", lost_after_s=member.lost_after_s)]
        enlist(state, record)
        return []


@FOLDS.on("cluster", "cluster-summarised", ClusterSummary)
def _summarised(state: State, fact: Fact, summary: ClusterSummary) -> None:
    """Record a summary; ignore an older one, by its sequence in FED_UP or its number, since reports may repeat."""
    known = state.clusters.get(fact.subject_id)
    is_past = known is not None and 0 < summary.source_seq <= known.source_seq
    if is_past or (known is not None and 0 < summary.number < known.number):
        state.anomalies["summary of the past"] += 1
        return
    state.clusters[fact.subject_id] = summary
    member = state.members.get(fact.subject_id)
    if member is not None:
        clusters.summarised(state, member, summary)


@FOLDS.on("log", "checkpoint-requested", CheckpointRequested)
def _checkpoint_requested(state: State, _fact: Fact, _: CheckpointRequested) -> None:
    state.facts = -1  # this one itself is counted afterwards


@FOLDS.on("cluster", STATE_NAME, ClusterSummary)
def _load_summary(state: State, fact: Fact, summary: ClusterSummary) -> None:
    state.clusters[fact.subject_id] = summary
