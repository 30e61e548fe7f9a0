"""Choose the waiting jobs to route now, by fair share: the team with the least use per weight goes first.

A team's limit over all clusters delays its jobs; so does a rule with `waits` whose clusters all overflow.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.core import Instant, after
from muster.federation.core.pending import PendingQueue, QueueKey
from muster.federation.core.routes import GPU_MILLI, Proposed, Route, choices, choose, rule_for
from muster.federation.core.state import Member, RoutedJob, State
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.routing import Choice, RoutingPolicy

TEAM_LIMIT = "team-limit"
OVERFLOW = "overflow"
NO_CLUSTER = "no-cluster"
LEASED = "leased"
SETTLING = "settling"
UNKNOWN_CLUSTER = "unknown-cluster"
"""Why a job waits with the federation: its team has reached its limit; every cluster of its rule overflows; no cluster
accepts jobs; the lost cluster that has it may still run it; the only possible cluster has just rejoined; the only
possible cluster is not a member.
"""

SETTLE_S = 60.0
"""Time during which a rejoined cluster gets no jobs of other lost clusters, in seconds."""


class Given(NamedTuple):
    """A job that gets a cluster."""

    record: RoutedJob
    route: Route


@dataclass(slots=True)
class Turns:
    """Grants of one decision. leased: lost clusters that may still run jobs that others would take, with the end.

    settles_at: when the first cluster that has just come back takes jobs of others, 0: none has.
    """

    given: list[Given] = field(default_factory=list)
    leased: dict[str, int] = field(default_factory=dict)
    settles_at: int = 0
    has_more: bool = False


def enlist(state: State, record: RoutedJob) -> None:
    """Queue a job that needs a cluster, by the properties that it shares with others. A cancelled job is not queued,
    unless a lost cluster has it; nor a job of a Kubernetes object, which only that object's cluster may have."""
    job, ends = record.job, record.cancel is not None
    if job.origin is not None:
        state.dirty[job.id] = None
        return
    if ends and not record.cluster:
        state.pending.remove(job.id)
        return
    rule = rule_for(job, state.policy)
    to = record.reroute.to if record.reroute is not None else ()
    avoid = tuple(dict.fromkeys((*(one.cluster for one in record.owed), *filter(None, (record.cluster,)))))
    last = record.reroute.left if record.reroute is not None and not to else ""
    key = QueueKey(
        job.spec.team, "" if rule is None else rule.name, record.milli, to, avoid, record.cluster, ends, last
    )
    state.pending.add(key, submitted_at=job.submitted_at, job_id=job.id)


def limits_of(policy: RoutingPolicy) -> tuple[dict[str, int], dict[str, float]]:
    """Return the GPU limits of teams over all clusters, in thousandths, and their weights; only of teams with any."""
    limits = {one.team: round(one.gpus * GPU_MILLI) for one in policy.teams if one.gpus is not None}
    return limits, {one.team: one.weight for one in policy.teams}


def take_turns(state: State, now: Instant, *, most: int) -> Turns:
    """Return the next jobs to route, at most `most`; queues without a route are marked as tried."""
    turns, proposed = Turns(), Proposed()
    limits, weights = limits_of(state.policy)
    queues: dict[str, list[tuple[tuple[int, str], QueueKey, int]]] = {}
    for queue in state.pending.open():
        queues.setdefault(queue.key.team, []).append((queue.jobs[0], queue.key, 0))

    def share(team: str) -> float:
        return (state.used.get(team, 0) + proposed.used.get(team, 0)) / weights.get(team, 1.0)

    for heads in queues.values():
        heapq.heapify(heads)
    teams = [(share(team), heads[0][0], team) for team, heads in queues.items()]
    heapq.heapify(teams)
    while teams:
        if len(turns.given) >= most:
            turns.has_more = True
            break
        _, _, team = heapq.heappop(teams)
        heads = queues[team]
        place, key, at = heapq.heappop(heads)
        queue = state.pending.queues[key]
        record = state.jobs[place[1]]
        found = judge(state, record, key, limits=limits, proposed=proposed, now=now)
        if isinstance(found, Route):
            if found.cluster:
                proposed.add(team=team, cluster=found.cluster, milli=record.milli)
            turns.given.append(Given(record, found))
            if at + 1 < len(queue.jobs):
                heapq.heappush(heads, (queue.jobs[at + 1], key, at + 1))
        else:
            _put_off(state, queue, found, turns, at=at, now=now)
        if heads:
            heapq.heappush(teams, (share(team), heads[0][0], team))
    return turns


def _put_off(state: State, queue: PendingQueue, why: str, turns: Turns, *, at: int, now: Instant) -> None:
    """Put off a queue. Jobs proposed before it count against it until they are folded."""
    left = state.members.get(queue.key.left)
    if why == LEASED and left is not None:
        turns.leased[left.name] = left.granted_until
    elif why == SETTLING and left is not None:
        back = (after(Instant(m.returned_at), SETTLE_S) for m in state.members.values() if m.returned_at > left.since)
        still = (moment for moment in back if moment > now)  # without members that have settled already
        turns.settles_at = min(filter(None, (turns.settles_at, *still)))
    elif not turns.given and not at:
        queue.judged = state.pending.version


def judge(
    state: State, record: RoutedJob, key: QueueKey, *, limits: dict[str, int], proposed: Proposed, now: Instant
) -> Route | str:
    """Return the route of the first job of a queue, with cluster "" if it ends; otherwise why it waits."""
    team = key.team
    left = state.members.get(key.left)
    if key.ends:
        return LEASED if left is not None and left.granted_until > now else Route("", "cancelled")
    limit = limits.get(team)
    has_room = limit is None or state.used.get(team, 0) + proposed.used.get(team, 0) + record.milli <= limit
    if not has_room and not key.left:  # a rerouted job is counted already
        return TEAM_LIMIT
    cluster, rule = _choose(state, record, key, proposed=proposed, now=now)
    if cluster is None:
        return OVERFLOW if _takes_jobs(state.members, key) else NO_CLUSTER
    if left is not None and left.granted_until > now:
        return LEASED
    if left is not None and _has_just_come_back(state.members[cluster], left, now):
        return SETTLING
    return Route(cluster, rule)


def _choose(
    state: State, record: RoutedJob, key: QueueKey, *, proposed: Proposed, now: Instant
) -> tuple[str | None, str]:
    """Return the cluster, and the rule as text."""
    rule, avoid = rule_for(record.job, state.policy), frozenset(key.avoid)

    def pick(among: Iterable[Choice], *, waits: bool = False, last: str = "") -> str | None:
        return choose(
            among,
            members=state.members,
            summaries=state.clusters,
            proposed=proposed,
            milli=record.milli,
            avoid=avoid | {last},
            waits=waits,
            heard=bool(key.left),
            now=now,
        )

    if key.to:
        found = pick(Choice(cluster=name) for name in key.to)
        if found is not None or (record.reroute is not None and record.reroute.principal):
            return found, "as asked"
    waits = rule is not None and rule.waits
    found = pick(choices(rule, state.members), waits=waits, last=key.last) if key.last else None
    if found is None:
        found = pick(choices(rule, state.members), waits=waits)
    return found, f"rule {rule.name}" if rule is not None else ""


def _has_just_come_back(member: Member, left: Member, now: Instant) -> bool:
    """Return whether the cluster was lost together with the other one and has just rejoined. If several clusters
    fall silent at once, the cause is the link or the federation, and the first to rejoin does not get jobs that the
    others are about to continue."""
    return member.returned_at > left.since and now < after(Instant(member.returned_at), SETTLE_S)


def _takes_jobs(members: dict[str, Member], key: QueueKey) -> bool:
    """Return whether any cluster that this queue may use accepts jobs."""
    return any(m.phase is ClusterPhase.ACTIVE and m.name not in key.avoid for m in members.values())
