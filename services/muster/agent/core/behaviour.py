"""Behavior of simulated pods and nodes: every number is a function of the seed and of its purpose."""

import math
from dataclasses import dataclass

from muster.core import Instant, after
from muster.core.seeded import exponential, lognormal, uniform
from muster.core.settings import Share, SimulatedWorkSettings, SimulationSettings
from muster.schemas import labels
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.job import JobSpec

START_SIGMA = 0.25  # deviation of the logarithm of start times: image pulls and mounts vary, but not wildly
FAILED_EXIT_CODE = 1
DAY_S = 86_400.0
CHECKPOINT_SPREAD = 0.1
"""Checkpoints come at `interval_s` plus or minus half of this share: training loops write them between steps."""
CHECKPOINT_S_LEAST = 5.0
"""Minimum simulated interval: each checkpoint is a fact in the log."""
NOTICE_S_LEAST, NOTICE_S_MOST = 0.3, 3.0
"""Time in which a stopped pod writes its last checkpoint."""


class Behaviour(SimulationSettings):
    """Behavior of simulated pods and nodes. By default no job fails at random."""

    job_failure_share: Share = 0.0
    work: SimulatedWorkSettings = SimulatedWorkSettings()
    """Behavior of checks and actions on nodes."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The end of an attempt that is not stopped."""

    run_s: float
    """From when all pods run."""
    exit_code: int
    failing: float = 0.0
    """Which slot fails, 0 to 1."""

    @property
    def outcome(self) -> PodsOutcome:
        """Return the outcome; exit code 0 is success."""
        return PodsOutcome.FAILED if self.exit_code else PodsOutcome.SUCCEEDED


def start_delay_s(behaviour: Behaviour, *, job_id: str, attempt: int) -> float:
    """Return the seconds from placed to started, for the whole gang."""
    if not behaviour.start_s:
        return 0.0
    return lognormal(behaviour.start_s, START_SIGMA, behaviour.seed, job_id, attempt, "start")


def run_plan(behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int, resumed_s: float = 0.0) -> RunPlan:
    """Return how the attempt ends by itself. Labels that are not numbers are ignored.

    `resumed_s` is work already done; the rest follows after `restart_s`. A run that fails without a label does so at a
    random share of its time, as crashes do.
    """
    work_s = _label_s(spec)
    if work_s is None:
        work_s = lognormal(behaviour.run_s, behaviour.run_sigma, behaviour.seed, job_id, "run")
    run_s = restart_s(spec, resumed_s) + max(0.0, work_s - resumed_s)
    exit_code = _label_exit_code(spec)
    if exit_code is None:
        fails = uniform(behaviour.seed, job_id, attempt, "fails") < behaviour.job_failure_share
        if not fails:
            return RunPlan(run_s, 0)
        run_s *= uniform(behaviour.seed, job_id, attempt, "fails-at")
        exit_code = FAILED_EXIT_CODE
    return RunPlan(run_s, exit_code, uniform(behaviour.seed, job_id, attempt, "failing") if exit_code else 0.0)


def restart_s(spec: JobSpec, resumed_s: float) -> float:
    """Return the seconds that a resumed run needs before it works; 0 without a checkpoint."""
    return spec.checkpointing.restart_s if spec.checkpointing is not None and resumed_s else 0.0


def next_checkpoint(
    behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int, since: Instant
) -> Instant | None:
    """Return the time of the next checkpoint, counted from `since`; None: never."""
    if spec.checkpointing is None:
        return None
    interval_s = max(CHECKPOINT_S_LEAST, spec.checkpointing.interval_s)
    swing = CHECKPOINT_SPREAD * (uniform(behaviour.seed, job_id, attempt, "checkpoint", since) - 0.5)
    return after(since, interval_s * (1.0 + swing))


def notice_s(behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int, grace_s: float) -> float | None:
    """Return the seconds from the stop to the last checkpoint and exit; None: the pods exit without a checkpoint.

    A job without checkpointing does not use the grace, and a very short grace is not enough for a checkpoint.
    """
    if spec.checkpointing is None or grace_s < NOTICE_S_LEAST:
        return None
    most = min(grace_s, NOTICE_S_MOST)
    return NOTICE_S_LEAST + (most - NOTICE_S_LEAST) * uniform(behaviour.seed, job_id, attempt, "notice")


def resize_delay_s(behaviour: Behaviour, *, job_id: str, attempt: int, at: Instant) -> float:
    """Return the seconds until the pods that a resize adds run."""
    if not behaviour.start_s:
        return 0.0
    return lognormal(behaviour.start_s, START_SIGMA, behaviour.seed, job_id, attempt, "resize", at)


def next_failure_s(behaviour: Behaviour, *, node: str, up_since: Instant) -> float | None:
    """Return the seconds from `up_since` until the node fails; None: never."""
    if not behaviour.node_failures_per_day:
        return None
    return exponential(DAY_S / behaviour.node_failures_per_day, behaviour.seed, "node", node, up_since)


def fails_to_come(behaviour: Behaviour, *, scale: str) -> bool:
    """Return whether the node of this scaling decision fails to come up."""
    share = behaviour.provision_failure_share
    return bool(share) and uniform(behaviour.seed, "provision", scale) < share


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
