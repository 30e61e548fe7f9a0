"""How simulated pods and nodes behave: every number is a function of the seed and of what it is for."""

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
"""Checkpoints come at `interval_s` more or less a half of this share: training loops write them between steps."""
CHECKPOINT_S_LEAST = 5.0
"""A job that asks for more frequent checkpoints is simulated with this interval: each is a fact in the log."""
NOTICE_S_LEAST, NOTICE_S_MOST = 0.3, 3.0
"""How long a pod that was told to stop writes its last checkpoint."""


class Behaviour(SimulationSettings):
    """How simulated pods and nodes behave. No job fails by chance unless that is asked for."""

    job_failure_share: Share = 0.0
    work: SimulatedWorkSettings = SimulatedWorkSettings()
    """How checks and actions on nodes go."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """How an attempt ends if nobody stops it. run_s: from when all pods run. failing: 0 to 1, which slot fails."""

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


def run_plan(behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int, resumed_s: float = 0.0) -> RunPlan:
    """The attempt's own end. A label that is no number counts as absent: it is the submitter's to see, not ours to
    refuse.

    resumed_s: work that is done already; the rest is to do, after `restart_s` to come back. A run that fails without a
    label does so at a random share of its time, as crashes do.
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
    """Seconds that a run needs to come back before it works: none if there is nothing to come back to."""
    return spec.checkpointing.restart_s if spec.checkpointing is not None and resumed_s else 0.0


def next_checkpoint(
    behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int, since: Instant
) -> Instant | None:
    """When the run writes its next checkpoint, the last one (or its work) having begun at `since`; None: never."""
    if spec.checkpointing is None:
        return None
    interval_s = max(CHECKPOINT_S_LEAST, spec.checkpointing.interval_s)
    swing = CHECKPOINT_SPREAD * (uniform(behaviour.seed, job_id, attempt, "checkpoint", since) - 0.5)
    return after(since, interval_s * (1.0 + swing))


def notice_s(behaviour: Behaviour, spec: JobSpec, *, job_id: str, attempt: int, grace_s: float) -> float | None:
    """Seconds from the notice to the last checkpoint, after which the pods exit; None: they exit without one.

    A job without checkpointing has nothing to do for the grace, and one with hardly any grace has no time to.
    """
    if spec.checkpointing is None or grace_s < NOTICE_S_LEAST:
        return None
    most = min(grace_s, NOTICE_S_MOST)
    return NOTICE_S_LEAST + (most - NOTICE_S_LEAST) * uniform(behaviour.seed, job_id, attempt, "notice")


def resize_delay_s(behaviour: Behaviour, *, job_id: str, attempt: int, at: Instant) -> float:
    """Seconds until pods that a resize adds run with the others."""
    if not behaviour.start_s:
        return 0.0
    return lognormal(behaviour.start_s, START_SIGMA, behaviour.seed, job_id, attempt, "resize", at)


def next_failure_s(behaviour: Behaviour, *, node: str, up_since: Instant) -> float | None:
    """Seconds that a node lives on from `up_since`; None: for ever."""
    if not behaviour.node_failures_per_day:
        return None
    return exponential(DAY_S / behaviour.node_failures_per_day, behaviour.seed, "node", node, up_since)


def fails_to_come(behaviour: Behaviour, *, scale: str) -> bool:
    """Whether the node that this choice of the scaler adds does not come up."""
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
