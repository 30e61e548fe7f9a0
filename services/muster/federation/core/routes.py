"""Routing as data: a tuple of rules, the first that matches says the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.schemas.job import JobKind, JobSpec


@dataclass(frozen=True, slots=True)
class Rule:
    """Jobs that match go to `cluster`. An empty condition matches every job; all conditions must match.

    labels: (name, value) pairs that the job must carry.
    """

    cluster: str
    teams: frozenset[str] = frozenset()
    kinds: frozenset[JobKind] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()

    def matches(self, spec: JobSpec) -> bool:
        """Whether this rule speaks of the job."""
        return (
            (not self.teams or spec.team in self.teams)
            and (not self.kinds or spec.kind in self.kinds)
            and all(spec.labels.get(name) == value for name, value in self.labels)
        )


class NoRouteError(ValueError):
    """Rules that leave some job without a cluster; the last rule must match every job."""


def check_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules, if every job finds its cluster. Raises NoRouteError."""
    if not rules or rules[-1] != Rule(rules[-1].cluster):
        raise NoRouteError("rules: the last one must have no conditions, so that every job finds its cluster")
    return tuple(rules)


def route(spec: JobSpec, rules: Sequence[Rule]) -> str:
    """The cluster for a job."""
    return next(rule.cluster for rule in rules if rule.matches(spec))


def clusters_of(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Every cluster that a rule names, in order."""
    return tuple(dict.fromkeys(rule.cluster for rule in rules))
