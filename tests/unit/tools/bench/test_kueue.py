"""Kueue's baseline workload as Muster runs it, and the figures made of the facts."""

from collections import Counter

import pytest

from muster.core import NS_PER_S, Fact, Instant
from muster.schemas.base import Payload, parse_request
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobRouted,
    JobStopRequested,
    JobSubmitted,
    QueuedReason,
    StopReason,
)
from muster.schemas.job import Job, JobSpec, TaskGroup
from muster_tools.bench.kueue_figures import Courses
from muster_tools.bench.kueue_input import arrivals, floor_s, queue_names, queues, total


def test_the_workload_is_the_published_one() -> None:
    coming = list(arrivals(1.0))
    specs = [parse_request(JobSpec, one.body) for one in coming]
    assert len(coming) == total(1.0) == 15_000
    assert len({one.key for one in coming}) == 15_000
    kinds = Counter(
        (spec.priority, spec.task_groups[0].cpu_milli, spec.labels["sim.muster.dev/run-s"]) for spec in specs
    )
    assert kinds == {(50, 1_000, "0.2"): 10_500, (100, 5_000, "0.5"): 3_000, (200, 20_000, "1"): 1_500}
    assert {spec.min_slice_s for spec in specs} == {0.0}
    assert floor_s(1.0) == pytest.approx(66.0)


def test_jobs_come_at_the_pace_of_their_generators_and_in_order() -> None:
    coming = list(arrivals(1.0))
    assert [one.due_s for one in coming] == sorted(one.due_s for one in coming)
    last = {one.key.partition("-")[0]: one.due_s for one in coming}
    assert last == pytest.approx({"small": 34.9, "medium": 49.5, "large": 58.8})


def test_a_share_of_the_workload_keeps_its_mix() -> None:
    assert total(0.1) == 1_500
    assert Counter(one.key.partition("-")[0] for one in arrivals(0.1)) == {"small": 1_050, "medium": 300, "large": 150}


def test_cohorts_have_no_quota_and_queues_borrow_from_their_siblings() -> None:
    tree = list(queues())
    assert (len(tree), len(queue_names())) == (35, 30)
    assert all(not spec.quota for spec in tree if spec.parent is None)
    assert all(spec.quota == {"cpu_milli": 20_000} for spec in tree if spec.parent)


def course(*moments: tuple[float, str, Payload], name: str = "large-cq-0-0-0") -> list[Fact]:
    """Facts of one job at seconds of a run, the first `submitted`."""
    spec = JobSpec(name=name, team="kueue", queue="cq-0-0", task_groups=(TaskGroup(cpu_milli=20_000, memory_mib=0),))
    job = Job(id=(name.upper() + "A" * 26)[:26].translate(str.maketrans("-0189", "AABCD")), spec=spec, principal="ann",
              idempotency_key=name, body_hash="")  # fmt: skip
    told: list[tuple[float, str, Payload]] = [
        (0.0, "submitted", JobSubmitted(job=job)),
        (0.1, "routed", JobRouted(job=job, cluster="c")),
    ]
    return [
        Fact(f"f{seq}", seq, Instant(round((1_000 + at_s) * NS_PER_S)), "c", "w", "job", job.id, name_of, (), "", body)
        for seq, (at_s, name_of, body) in enumerate([*told, *moments], start=1)
    ]


def test_figures_are_those_of_the_facts() -> None:
    facts = course(
        (0.5, "queued", JobQueued(queue="cq-0-0", attempt=1)),
        (2.0, "placed", JobPlaced(attempt=1, slots=())),
        (2.5, "stop-requested", JobStopRequested(attempt=1, reason=StopReason.PREEMPTED)),
        (3.0, "queued", JobQueued(queue="cq-0-0", attempt=2, reason=QueuedReason.PREEMPTED)),
        (8.0, "placed", JobPlaced(attempt=2, slots=())),
        (9.25, "succeeded", JobFinished()),
    )
    courses = Courses()
    courses.fold(facts)
    found = courses.figures()
    large = found.by_class["large"]
    assert (found.jobs, found.succeeded, found.wall_s, found.preemptions) == (1, 1, 9.25, 1)
    assert (large.admission_mean_s, large.held_over_run_s) == (2.0, 0.25)
    assert found.use_pct == pytest.approx(100 * (1.0 + 1.25) / 9.25 / 30, abs=0.05), "of one in thirty queues"
    assert found.use_min_pct == 0.0


def test_without_an_end_there_is_nothing_to_measure() -> None:
    courses = Courses()
    courses.fold(course())
    with pytest.raises(ValueError, match="no job ended"):
        courses.figures()
