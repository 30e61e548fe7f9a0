"""Which cluster a job goes to: the first rule that matches, and of its clusters the first that takes jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.core import Instant
from muster.federation.core.state import Member
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.job import Job
from muster.schemas.routing import Choice, RoutingPolicy, RoutingRule

GPU_MILLI = 1000
DRAINS_MAX = 8
"""Drains that are followed one after the other, from a cluster to those that take its jobs."""


@dataclass(slots=True)
class Proposed:
    """What one decision has proposed so far, which no fold knows yet: by team and by cluster."""

    used: dict[str, int] = field(default_factory=dict)
    milli: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)

    def add(self, *, team: str, cluster: str, milli: int) -> None:
        """One more job of this team goes to this cluster."""
        self.used[team] = self.used.get(team, 0) + milli
        self.milli[cluster] = self.milli.get(cluster, 0) + milli
        self.jobs[cluster] = self.jobs.get(cluster, 0) + 1


class Route(NamedTuple):
    """Where a job goes. rule: by which, in words, "" where there is nothing to choose."""

    cluster: str
    rule: str


def matches(rule: RoutingRule, job: Job) -> bool:
    """Whether the rule speaks of the job."""
    spec = job.spec
    gpus = spec.gpu_milli_total / GPU_MILLI
    return (
        (not rule.teams or spec.team in rule.teams)
        and (not rule.users or job.principal in rule.users)
        and (not rule.kinds or spec.kind in rule.kinds)
        and all(spec.labels.get(name) == value for name, value in rule.labels.items())
        and (not rule.models or _takes_one_of(job, rule.models))
        and gpus >= rule.gpus_min
        and (rule.gpus_max is None or gpus <= rule.gpus_max)
    )


def _takes_one_of(job: Job, models: Iterable[str]) -> bool:
    """Whether every group that asks for GPUs would take one of these models, and some group asks."""
    asking = [group for group in job.spec.task_groups if group.gpus or group.gpu_milli]
    known = frozenset(models)
    return bool(asking) and all(not group.gpu_models or known.intersection(group.gpu_models) for group in asking)


def rule_for(job: Job, policy: RoutingPolicy) -> RoutingRule | None:
    """The first rule that matches; None if the policy has no rules."""
    return next((rule for rule in policy.rules if matches(rule, job)), None)


def choices(rule: RoutingRule | None, members: Mapping[str, Member]) -> tuple[Choice, ...]:
    """The clusters of a rule in their order; without a rule the members in theirs, none of which overflows."""
    return rule.clusters if rule is not None else tuple(Choice(cluster=name) for name in members)


def choose(
    among: Iterable[Choice],
    *,
    members: Mapping[str, Member],
    summaries: Mapping[str, ClusterSummary],
    proposed: Proposed,
    milli: int,
    avoid: frozenset[str] = frozenset(),
    waits: bool = False,
    heard: bool = False,
    now: Instant,
) -> str | None:
    """The first of these clusters that takes jobs and does not overflow; None if the job has to wait.

    Where all overflow it is the first that takes jobs, unless the job `waits`. A cluster that is drained stands for
    those that take its jobs; one that is silent comes after those that are heard. avoid: clusters that it may not go
    to. heard: only one that is heard will do. milli: milli-GPUs of the job.
    """
    fallback: str | None = None
    for choice, name in _opened(among, members):
        member = members[name]
        if name in avoid or member.phase is not ClusterPhase.ACTIVE:
            continue
        if member.is_silent(now):
            fallback = fallback if heard else fallback or name
            continue
        if not overflows(choice, member, summaries.get(name), proposed=proposed, milli=milli, now=now):
            return name
        fallback = fallback or name
    return None if waits else fallback


def _opened(among: Iterable[Choice], members: Mapping[str, Member]) -> Iterable[tuple[Choice, str]]:
    """Each choice with the clusters that it stands for: itself, or where a drain sends its jobs."""
    for choice in among:
        names, seen = [choice.cluster], {choice.cluster}
        for _ in range(DRAINS_MAX):
            if not names:
                break
            further = list[str]()
            for name in names:
                member = members.get(name)
                if member is None:
                    continue
                if member.drain is None:
                    yield choice, name
                    continue
                further += [other for other in member.drain.to if other not in seen]
                seen.update(further)
            names = further


def overflows(
    choice: Choice,
    member: Member,
    summary: ClusterSummary | None,
    *,
    proposed: Proposed,
    milli: int,
    now: Instant,
) -> bool:
    """Whether a job of this size goes on to the next cluster. What is not known of a cluster is no reason."""
    if summary is None:
        return False
    if choice.queue_max is not None:
        waiting = summary.jobs_queued + member.came - member.went + proposed.jobs.get(member.name, 0)
        if max(0, waiting) >= choice.queue_max:
            return True
    if choice.expected_start_s_max is not None:
        ahead = proposed.milli.get(member.name, 0)
        expected_s = expected_start_s(member, summary, milli=milli + ahead, now=now)
        return expected_s is not None and expected_s > choice.expected_start_s_max
    return False


def expected_start_s(member: Member, summary: ClusterSummary, *, milli: int, now: Instant) -> float | None:
    """When a job of this size that came now would start, in seconds; None if that is not known.

    What waits there is what was routed there and has not ended, less what the cluster holds. It gets its GPUs as fast
    as GPUs came free lately (an estimate: it knows nothing of quotas and topology).
    """
    held = summary.gpu_milli_total - summary.gpu_milli_free
    lacking = max(0, member.milli - held) + milli - summary.gpu_milli_free
    if lacking <= 0:
        return 0.0
    rate = member.freed_rate(now)
    return lacking / rate if rate > 0 else None
