"""What a simulated job would print: a training loop's lines, functions of seed, job and interval."""

import math

from muster.agent.core.state import Attempt
from muster.core import Instant, seconds_between
from muster.core.seeded import uniform
from muster.schemas.telemetry import OutputLines

STEP_S = 0.25  # run time of one step of the loop


def output_of(pods: Attempt, *, seed: int, at: Instant) -> OutputLines:
    """What replica 0 printed by `at`: one line, with a loss that falls and shivers."""
    step = int(max(0.0, seconds_between(pods.started_at, at)) / STEP_S)
    loss = 0.8 + 9.0 / math.sqrt(1 + step) + 0.1 * uniform(seed, pods.job_id, pods.attempt, step)
    return OutputLines(job_id=pods.job_id, attempt=pods.attempt, at=at, lines=(f"step {step} loss {loss:.4f}",))
