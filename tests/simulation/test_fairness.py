"""Over time queues that always want more hold what their weights say."""

import pytest

from muster.core import after, seconds_between
from muster.schemas.facts.job import JobPlaced
from muster.simulator.engine import START
from simulation.histories import Story, story


def held_gpu_s(told: Story, queue: str, *, since_s: float) -> float:
    """GPU seconds that the queue's jobs held from then on."""
    begin, end, total = after(START, since_s), told.engine.now, 0.0
    of_queue = {job.job.id for job in told.plan.jobs if job.job.spec.queue_name == queue}
    open_at: dict[str, tuple[int, int]] = {}
    for fact in told.log:
        if fact.subject_id not in of_queue:
            continue
        if isinstance(fact.payload, JobPlaced):
            gpus = sum(len(slot.devices) for slot in fact.payload.slots)
            open_at[fact.subject_id] = (fact.time, gpus)
        elif fact.name in ("queued", "succeeded") and fact.subject_id in open_at:
            placed, gpus = open_at.pop(fact.subject_id)
            total += gpus * max(0.0, seconds_between(max(placed, begin), fact.time))
    return total + sum(gpus * seconds_between(max(placed, begin), end) for placed, gpus in open_at.values())


@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (1, 2, 3)])
def test_what_queues_hold_converges_to_their_weights(weights: tuple[int, ...]) -> None:
    """Jobs of different lengths, as many as they like: what counts is what is held, not how many jobs ran."""
    queues = [{"name": f"q{at}", "weight": weight, "half_life_s": 7200} for at, weight in enumerate(weights)]
    jobs = [
        {"name": f"j{at}", "queue": f"q{at}", "gpus": 1 + at % 2, "count": 400, "run_s": 400 * (1 + at)}
        for at in range(len(weights))
    ]
    told = story({"nodes": [{"name": "n", "gpus": 8, "count": 3}], "queues": queues, "jobs": jobs}, after_s=14_400)
    held = [held_gpu_s(told, f"q{at}", since_s=3600) for at in range(len(weights))]
    shares = [amount / sum(held) for amount in held]
    assert shares == pytest.approx([weight / sum(weights) for weight in weights], abs=0.05)


def test_who_had_much_lately_yields() -> None:
    """One queue had everything for hours; when another comes it gets more than a half until that is made up for."""
    parts = {
        "nodes": [{"name": "n", "gpus": 8}],
        "queues": [{"name": "had", "half_life_s": 36_000}, {"name": "comes", "half_life_s": 36_000}],
        "jobs": [
            {"name": "r", "queue": "had", "gpus": 1, "count": 8, "state": "running", "started_s_ago": 20_000,
             "run_s": 20_000 + 60, "preemptible": False},
            {"name": "h", "queue": "had", "gpus": 1, "count": 200, "run_s": 600},
            {"name": "c", "queue": "comes", "gpus": 1, "count": 200, "run_s": 600},
        ],
    }  # fmt: skip
    told = story(parts, after_s=7200)
    had, comes = (held_gpu_s(told, queue, since_s=120) for queue in ("had", "comes"))
    assert comes > 1.2 * had
