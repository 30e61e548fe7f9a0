"""The surge's jobs and figures."""

import json

from muster.schemas.base import parse_request
from muster.schemas.job import JobSpec, Phase
from muster.schemas.views import JobView
from muster_tools.bench.workload import bodies, quantiles, times

S = 1_000_000_000


def view(number: int, *, submitted: int, placed: int = 0, running: int = 0) -> JobView:
    return JobView(
        id=str(number), name="n", team="t", principal="p", queue="q", phase=Phase.RUNNING,
        submitted_at=submitted, placed_at=placed, running_at=running,
    )  # fmt: skip


def test_four_thousand_jobs_ask_eleven_thousand_five_hundred_gpus() -> None:
    specs = [json.loads(body) for _, body in bodies(4000, prefix="cold", run_s=9)]
    assert sum(spec["task_groups"][0]["gpus"] for spec in specs) == 11_500


def test_every_job_is_acceptable_and_has_its_own_key() -> None:
    found = dict(bodies(16, prefix="cold", run_s=9))
    assert len(found) == 16
    assert {parse_request(JobSpec, body).labels["sim.muster.dev/run-s"] for body in found.values()} == {"9"}


def test_walls_run_from_the_first_submit_to_the_last_stamp() -> None:
    jobs = [view(1, submitted=S, placed=2 * S, running=3 * S), view(2, submitted=S, placed=5 * S, running=9 * S)]
    found = times(jobs, submitted=2, first_submit_ns=S)
    assert (found.wall_placed_s, found.wall_running_s, found.placed_per_s) == (4.0, 8.0, 0.5)
    assert found.submit_to_placed_ms.max == 4000.0


def test_a_job_without_a_place_is_stranded() -> None:
    found = times([view(1, submitted=S, placed=2 * S), view(2, submitted=S)], submitted=3, first_submit_ns=S)
    assert (found.placed, found.stranded) == (1, 2)


def test_nothing_placed_gives_zeros() -> None:
    found = times([], submitted=4, first_submit_ns=S)
    assert (found.placed, found.placed_per_s, found.submit_to_placed_ms.p99) == (0, 0.0, 0.0)


def test_quantiles_are_of_the_nearest_rank() -> None:
    found = quantiles([float(n) for n in range(1, 101)])
    assert (found.p50, found.p99, found.max) == (50.0, 99.0, 100.0)
