"""How simulated pods and nodes behave: every number is a function of the seed and of what it is for."""

import math
from dataclasses import dataclass

from muster.core import Instant
from muster.core.seeded import exponential, lognormal, uniform
from muster.schemas import labels
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.job import JobSpec

START_SIGMA = 0.25  # deviation of the logarithm of start times: image pulls and mounts vary, but not wildly
FAILED_EXIT_CODE = 1
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """start_s, run_s: medians of log-normal times. job_failure_share: of runs whose job names no exit code.

    node_failures_per_day: per node, independent (exponential times between). node_repair_s: from lost to returned.
    """

    seed: int = 1
    start_s: float = 0.5
    run_s: float = 45.0
    run_sigma: float = 0.5
    job_failure_share: float = 0.0
    node_failures_per_day: float = 0.0
    node_repair_s: float = 120.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """How an attempt ends if nobody stops it. run_s: from all pods started. failing: 0 to 1, which slot fails."""

    run_s: float
    exit_code: int
    failing: float = 0.0

    @property
    def outcome(self) -> PodsOutcome:
        """Success is exit code 0."""
        return PodsOutcome.FAILED if self.exit_code else PodsOutcome.SUCCEEDED


def start_delay_s(behaviour: Behaviour, *, job_id: str, attempt: int) -> float:
    """Seconds from placed to started, of the whole gang."""
    if not behaviour.start_s:
        return 0.0
    return lognormal(behaviour.start_s, START_SIGMA, behaviour.seed, job_id, attempt, "start")


def run_plan(behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int) -> RunPlan:
    """The attempt's own end. A label that is no number counts as absent: it is the submitter's to see, not ours to
    refuse.

    A run that fails without a label does so at a random share of its time, as crashes do.
    """
    run_s = _label_s(spec)
    if run_s is None:
        run_s = lognormal(behaviour.run_s, behaviour.run_sigma, behaviour.seed, job_id, attempt, "run")
    exit_code = _label_exit_code(spec)
    if exit_code is None:
        fails = uniform(behaviour.seed, job_id, attempt, "fails") < behaviour.job_failure_share
        if not fails:
            return RunPlan(run_s, 0)
        run_s *= uniform(behaviour.seed, job_id, attempt, "fails-at")
        exit_code = FAILED_EXIT_CODE
    return RunPlan(run_s, exit_code, uniform(behaviour.seed, job_id, attempt, "failing") if exit_code else 0.0)


def next_failure_s(behaviour: Behaviour, *, node: str, up_since: Instant) -> float | None:
    """Seconds that a node lives on from `up_since`; None: for ever."""
    if not behaviour.node_failures_per_day:
        return None
    return exponential(DAY_S / behaviour.node_failures_per_day, behaviour.seed, "node", node, up_since)


def _label_s(spec: JobSpec) -> float | None:
    text = spec.labels.get(labels.RUN_S)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _label_exit_code(spec: JobSpec) -> int | None:
    text = spec.labels.get(labels.EXIT_CODE)
    if text is None:
        return None
    try:
        code = int(text)
    except ValueError:
        return None
    return code if 0 <= code <= 255 else None
