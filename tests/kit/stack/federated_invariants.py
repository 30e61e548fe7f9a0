"""The design's invariants over several clusters' logs and the federation's. Pure: facts in, violations out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kit.invariants import TERMINAL, violations
from muster.core.fact import Fact
from muster.schemas.facts.job import JobRouted

Span = tuple[int, int, str]
"""When pods of an attempt began and ended, in nanoseconds, and in which cluster."""


def violations_across(logs: Mapping[str, Sequence[Fact]], fed: Iterable[Fact], *, accepted: Sequence[str]) -> list[str]:
    """What must not be. logs: by cluster, whole. accepted: jobs that have all ended."""
    found = [
        f"{cluster}: {violation}"
        for cluster, facts in logs.items()
        for violation in violations(facts, accepted=_routed(facts), all_ended=False)
    ]
    ends = Counter(fact.subject_id for fact in fed if fact.name == "job-ended" or _is_own_end(fact))
    found += [f"{job_id} ended {ends[job_id]} times for the federation" for job_id in accepted if ends[job_id] != 1]
    done = Counter(fact.subject_id for facts in logs.values() for fact in facts if fact.name == "succeeded")
    found += [f"{job_id} succeeded {done[job_id]} times" for job_id in accepted if done[job_id] > 1]
    return found + _overlaps(logs)


def _is_own_end(fact: Fact) -> bool:
    return fact.kind == "job" and fact.writer == "federation" and fact.name in TERMINAL


def _routed(facts: Iterable[Fact]) -> list[str]:
    return list(dict.fromkeys(fact.subject_id for fact in facts if isinstance(fact.payload, JobRouted)))


def _overlaps(logs: Mapping[str, Sequence[Fact]]) -> list[str]:
    """Jobs that ran in two clusters at once, by the brokers' clocks, which are one in a test."""
    spans: dict[str, list[Span]] = defaultdict(list)
    for cluster, facts in logs.items():
        began: dict[str, int] = {}
        for fact in facts:
            if fact.name == "pods-started":
                began[fact.subject_id] = fact.time
            elif fact.name == "pods-exited" and fact.subject_id in began:
                spans[fact.subject_id].append((began.pop(fact.subject_id), fact.time, cluster))
        for job_id, start in began.items():
            spans[job_id].append((start, facts[-1].time, cluster))
    return [
        f"{job_id} ran in {one[2]} and in {next_one[2]} at once"
        for job_id, known in spans.items()
        for one, next_one in zip(sorted(known), sorted(known)[1:], strict=False)
        if next_one[0] < one[1] and one[2] != next_one[2]
    ]
