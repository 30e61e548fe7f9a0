"""The surge's jobs and the figures from their times. Pure."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.core.instant import NS_PER_S
from muster.schemas.views import JobView

GPU_CYCLE = (1, 1, 1, 2, 2, 4, 4, 8)  # 4,000 of these request 11,500 GPUs
TEAM = "surge"
LONG_RUN_S = 86_400.0
RUN_LABEL = "sim.muster.dev/run-s"


def bodies(count: int, *, prefix: str, run_s: float) -> Iterator[tuple[str, bytes]]:
    """Yield (idempotency key, HTTP body) of each job. prefix: distinguishes the jobs of different rounds."""
    for number in range(count):
        spec = {
            "name": f"{prefix}-{number}",
            "team": TEAM,
            "task_groups": [{"gpus": GPU_CYCLE[number % len(GPU_CYCLE)], "cpu_milli": 1000, "memory_mib": 1024}],
            "labels": {RUN_LABEL: f"{run_s:g}"},
        }
        yield f"{prefix}-{number}", json.dumps(spec, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of submit-to-placed, in ms."""

    p50: float
    p99: float
    max: float


def quantiles(values: Sequence[float]) -> Quantiles:
    """Return nearest-rank quantiles; zeros without values."""
    if not values:
        return Quantiles(0.0, 0.0, 0.0)
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[max(math.ceil(share * len(ordered)), 1) - 1], 2)

    return Quantiles(at(0.50), at(0.99), at(1.0))


@dataclass(frozen=True, slots=True)
class Times:
    """Outcome of one round. wall: from the first submission by the client's clock to the broker's stamp of the last."""

    placed: int
    stranded: int
    wall_placed_s: float
    wall_running_s: float
    placed_per_s: float
    submit_to_placed_ms: Quantiles


def times(jobs: Sequence[JobView], *, submitted: int, first_submit_ns: int) -> Times:
    """Return the figures of one round from the broker's stamps in the views. submitted: number of accepted jobs."""
    placed = [job for job in jobs if job.placed_at]
    last_placed = max((job.placed_at for job in placed), default=first_submit_ns)
    last_running = max((job.running_at for job in jobs), default=0) or first_submit_ns
    wall_placed_s = (last_placed - first_submit_ns) / NS_PER_S
    return Times(
        placed=len(placed),
        stranded=submitted - len(placed),
        wall_placed_s=round(wall_placed_s, 3),
        wall_running_s=round((last_running - first_submit_ns) / NS_PER_S, 3),
        placed_per_s=round(len(placed) / wall_placed_s, 1) if wall_placed_s > 0 else 0.0,
        submit_to_placed_ms=quantiles([(job.placed_at - job.submitted_at) / 1e6 for job in placed]),
    )
