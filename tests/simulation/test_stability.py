"""Whatever the cluster, its queues and its jobs: decisions come to rest, and come to rest in a state that is right."""

from hypothesis import HealthCheck, given, settings

from simulation.histories import (
    Story,
    a_fresh_scheduler_agrees,
    books_are_right,
    nobody_who_must_not_was_preempted,
    story,
)
from simulation.scenarios import GPUS, NODES, SLICE_S, scenarios


def _is_right(told: Story) -> None:
    assert told.stable
    books_are_right(told)
    nobody_who_must_not_was_preempted(told)
    a_fresh_scheduler_agrees(told)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios)
def test_decisions_come_to_rest(parts: dict[str, object]) -> None:
    _is_right(story(parts))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios)
def test_nobody_preempts_each_other_in_turn(parts: dict[str, object]) -> None:
    """Over two days each job is preempted a few times at most: others get their turn when a slice is over."""
    told = story(parts, after_s=2 * 86_400)
    books_are_right(told)
    nobody_who_must_not_was_preempted(told)
    slices = 2 * 86_400 / SLICE_S
    for job in told.plan.jobs:
        assert sum(fact.subject_id == job.job.id for fact in told.preempted()) <= slices


def test_who_may_grow_once_others_have_their_places_has_grown_when_decisions_rest() -> None:
    """An example that failed once: while j11 starts, others still wait for room; then there is room for it to grow."""
    running = {"state": "running", "priority": 20, "min_slice_s": SLICE_S}
    places = [("b", 0, 2, 600), ("c", 0, 2, 600), ("a", 1, 1, 3601), ("a", 1, 2, 600), ("a", 1, 1, 600)]
    places += [("c", 2, 3, 600), ("c", 2, 1, 3601)]
    held = [
        {"queue": queue, "node": f"n-{node}", "gpus": gpus, "started_s_ago": started_s, **running}
        for queue, node, gpus, started_s in places
    ]
    waiting = {"gpus": 0.5, "min_slice_s": SLICE_S}
    come = [{"queue": "c", "priority": 20, **waiting}] * 4
    come.append({"queue": "a", "priority": 50, "replicas": 2, "min_replicas": 1, **waiting})
    tree = [
        *({"name": name, "weight": 0.5} for name in ("x", "y")),
        {"name": "a", "parent": "x", "quota": {"gpu": 5}, "weight": 0.5, "borrowing_limit": {"gpu": 0}},
        {"name": "b", "parent": "x", "quota": {"gpu": 2}, "weight": 0.5},
        {"name": "c", "parent": "y", "weight": 0.5},
        {"name": "d", "parent": "y", "quota": {"gpu": 0}, "weight": 0.5},
    ]
    parts: dict[str, object] = {
        "nodes": [{"name": "n", "gpus": GPUS, "count": NODES}],
        "queues": tree,
        "jobs": [{"name": f"j{at}", **one} for at, one in enumerate([*held, *come])],
    }
    told = story(parts)
    _is_right(told)
    assert len(told.said("resize-requested")) == 1
