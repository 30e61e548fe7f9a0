"""Routing of a job: the first rule that matches, and of its clusters the first that accepts jobs."""

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
"""Maximum length of a chain of drained clusters that send their jobs to the next."""


@dataclass(slots=True)
class Proposed:
    """Routes of the current decision that are not folded yet, by team and by cluster."""

    used: dict[str, int] = field(default_factory=dict)
    milli: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)

    def add(self, *, team: str, cluster: str, milli: int) -> None:
        """Add a job of this team to this cluster."""
        self.used[team] = self.used.get(team, 0) + milli
        self.milli[cluster] = self.milli.get(cluster, 0) + milli
        self.jobs[cluster] = self.jobs.get(cluster, 0) + 1


class Route(NamedTuple):
    """The route of a job. rule: as text, "" without a choice."""

    cluster: str
    rule: str


def matches(rule: RoutingRule, job: Job) -> bool:
    """Return whether the rule matches the job."""
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
    """Return whether a group requests GPUs, and all such groups accept one of these models."""
    asking = [group for group in job.spec.task_groups if group.gpus or group.gpu_milli]
    known = frozenset(models)
    return bool(asking) and all(not group.gpu_models or known.intersection(group.gpu_models) for group in asking)


def rule_for(job: Job, policy: RoutingPolicy) -> RoutingRule | None:
    """Return the first rule that matches; None if the policy has no rules."""
    return next((rule for rule in policy.rules if matches(rule, job)), None)


def choices(rule: RoutingRule | None, members: Mapping[str, Member]) -> tuple[Choice, ...]:
    """Return the clusters of a rule in order; without a rule the members in order, without overflow."""
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
    """Return the first of these clusters that accepts jobs and does not overflow; None if the job has to wait.

    If all overflow, it is the first that accepts jobs, unless the job `waits`. A drained cluster is replaced by the
    targets of its drain; a silent one comes after the others. avoid: clusters that the job may not use. heard: exclude
    silent clusters. milli: GPUs of the job, in thousandths.
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
    """Yield each choice with its clusters: itself, or the targets of its drain."""
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
    """Return whether a job of this size overflows to the next cluster; unknown values do not count."""
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
    """Return the seconds until a new job of this size would start; None if unknown.

    The waiting GPUs are those of live jobs routed there, less the allocated ones. They are served at the recent rate of
    freed GPUs (an estimate without quotas and topology).
    """
    held = summary.gpu_milli_total - summary.gpu_milli_free
    lacking = max(0, member.milli - held) + milli - summary.gpu_milli_free
    if lacking <= 0:
        return 0.0
    rate = member.freed_rate(now)
    return lacking / rate if rate > 0 else None
