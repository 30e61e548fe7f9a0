"""One attempt's pods in the simulated cluster: their next step and its time.

Both are functions of the behavior's seed and of the times of facts, so pods that fold the same facts again, after a
crash or from a checkpoint, take the same step.
"""

from dataclasses import dataclass, replace
from enum import Enum

from muster.agent.core.behaviour import (
    Behaviour,
    RunPlan,
    next_checkpoint,
    notice_s,
    resize_delay_s,
    restart_s,
    run_plan,
    start_delay_s,
)
from muster.agent.core.checking import checks_s, never_reports
from muster.agent.core.cluster import CreatePods, DeletePods, PodsExitedSeen, ResizePods
from muster.agent.core.state import NOT_YET
from muster.core import Instant, after, seconds_between
from muster.schemas.facts.job import PodsExited, PodsOutcome


class Step(Enum):
    """Next observation of the pods."""

    START = "start"
    CHECKS = "checks"
    CHECKPOINT = "checkpoint"
    RESIZE = "resize"
    EXIT = "exit"


@dataclass(slots=True)
class SimulatedPods:
    """The pods of one attempt."""

    effect: CreatePods
    """As requested, with the slots that run now."""
    plan: RunPlan
    start_at: Instant
    """When all pods run, however late the log has it."""
    started_at: Instant | None = None
    """Time of the start in the log."""
    deletion: DeletePods | None = None
    exit_at: Instant = NOT_YET
    """When the pods obey `deletion`."""
    resize: ResizePods | None = None
    resize_at: Instant = NOT_YET
    """When `resize` is done."""
    checkpointed_at: Instant = NOT_YET
    checkpoint_at: Instant | None = None
    checks_s: float | None = 0.0
    """Duration of the checks; None: they never end."""
    is_checked: bool = False
    """Whether the log has the results of the checks."""
    opened_at: Instant | None = None
    """Time of the gate's opening."""

    def next_step(self, behaviour: Behaviour) -> tuple[Step, Instant | None]:
        """Return their next step without further requests, and its time; None: no step."""
        if self.deletion is not None:
            writes = self._notice_s(behaviour, self.deletion) is not None and self.checkpointed_at < self.deletion.at
            return Step.CHECKPOINT if writes else Step.EXIT, self.exit_at
        if self.started_at is None:
            return Step.START, self.start_at
        if self.effect.preflight is not None and not self.is_checked:
            return Step.CHECKS, None if self.checks_s is None else after(self.started_at, self.checks_s)
        if self.run_end is None:
            return Step.EXIT, None
        step, at = Step.EXIT, self.run_end
        if self.resize is not None and self.resize_at < at:
            step, at = Step.RESIZE, max(self.resize_at, self.started_at)
        if self.checkpoint_at is not None and self.checkpoint_at < at:
            step, at = Step.CHECKPOINT, self.checkpoint_at
        return step, at

    @property
    def works_since(self) -> Instant | None:
        """Return since when they work on the job; None while they do not."""
        return self.start_at if self.effect.preflight is None else self.opened_at

    @property
    def run_end(self) -> Instant | None:
        """Return when they end by themselves; None while they wait for their gate."""
        since = self.works_since
        return None if since is None else after(since, self.plan.run_s)

    def start(self, behaviour: Behaviour, at: Instant) -> bool:
        """Record the start. False if it was known."""
        if self.started_at is not None:
            return False
        self.started_at = at
        if self.effect.preflight is None:
            self._begin(behaviour, at)
        return True

    def checked(self) -> bool:
        """Record that the log has the results of their checks. False if it was known."""
        if self.is_checked:
            return False
        self.is_checked = True
        return True

    def open(self, behaviour: Behaviour, at: Instant) -> bool:
        """Begin their first step. False if it began already, has no gate, or they are ending."""
        if self.effect.preflight is None or self.opened_at is not None or self.deletion is not None:
            return False
        self.opened_at = at
        self.is_checked = True  # the gate opens after the checks or without them
        self._begin(behaviour, at)
        return True

    def checkpointed(self, behaviour: Behaviour, at: Instant) -> None:
        """Record a checkpoint that the log has since `at`."""
        self.checkpointed_at = at
        self._plan_checkpoint(behaviour, at)

    def delete(self, behaviour: Behaviour, deletion: DeletePods) -> bool:
        """End the pods, or lose their node. False if they end before they could obey."""
        delay_s = self._notice_s(behaviour, deletion) or 0.0
        exit_at = after(deletion.at, delay_s)
        if self.deletion is not None:
            if not deletion.lost_node or self.exit_at <= exit_at:
                return False
        elif self.started_at is not None and self.run_end is not None and self.run_end <= exit_at:
            return False
        self.deletion, self.exit_at = deletion, exit_at
        return True

    def ask_resize(self, behaviour: Behaviour, resize: ResizePods) -> bool:
        """Begin a resize. False if they are ending."""
        if self.deletion is not None:
            return False
        wanted, present = set(resize.slots), set(self.effect.slots)
        job_id, attempt = self.effect.job_id, self.effect.attempt
        delay_s = 0.0
        if present - wanted:
            told_s = notice_s(behaviour, self.effect.spec, job_id=job_id, attempt=attempt, grace_s=resize.grace_s)
            delay_s = told_s or 0.0
        if wanted - present:
            delay_s = max(delay_s, resize_delay_s(behaviour, job_id=job_id, attempt=attempt, at=resize.at))
        self.resize, self.resize_at = resize, after(resize.at, delay_s)
        return True

    def resized(self) -> bool:
        """Record that the log has the newest resize. False if none is in progress."""
        if self.resize is None:
            return False
        self.effect = replace(self.effect, slots=self.resize.slots)
        self.resize = None
        return True

    def exited(self) -> PodsExitedSeen:
        """Return how they ended."""
        effect, deletion = self.effect, self.deletion
        if deletion is not None:
            started_at = self.started_at if effect.preflight is None else self.opened_at
            started_at = self.exit_at if started_at is None else started_at
            exited = PodsExited(
                attempt=effect.attempt,
                outcome=PodsOutcome.NODE_LOST if deletion.lost_node else PodsOutcome.STOPPED,
                ran_s=max(0.0, seconds_between(started_at, self.exit_at)),
                node=deletion.lost_node,
            )
            return PodsExitedSeen(effect.job_id, exited)
        plan = self.plan
        failing = effect.slots[int(plan.failing * len(effect.slots))].node if plan.exit_code and effect.slots else ""
        exited = PodsExited(
            attempt=effect.attempt, outcome=plan.outcome, exit_code=plan.exit_code, ran_s=plan.run_s, node=failing
        )
        return PodsExitedSeen(effect.job_id, exited)

    def _begin(self, behaviour: Behaviour, at: Instant) -> None:
        back_s = restart_s(self.effect.spec, self.effect.resumed_s)
        self._plan_checkpoint(behaviour, after(at, back_s))

    def _plan_checkpoint(self, behaviour: Behaviour, since: Instant) -> None:
        effect = self.effect
        self.checkpoint_at = next_checkpoint(
            behaviour, effect.spec, job_id=effect.job_id, attempt=effect.attempt, since=since
        )

    def _notice_s(self, behaviour: Behaviour, deletion: DeletePods) -> float | None:
        """Return the seconds until the last checkpoint; None without one. Pods that had not begun save nothing."""
        since = self.started_at if self.effect.preflight is None else self.opened_at
        if deletion.lost_node or since is None or since >= deletion.at:
            return None
        effect = self.effect
        return notice_s(behaviour, effect.spec, job_id=effect.job_id, attempt=effect.attempt, grace_s=deletion.grace_s)


def new_pods(behaviour: Behaviour, effect: CreatePods) -> SimulatedPods:
    """Return the pods of a new attempt."""
    plan = run_plan(behaviour, effect.spec, job_id=effect.job_id, attempt=effect.attempt, resumed_s=effect.resumed_s)
    delay_s = start_delay_s(behaviour, job_id=effect.job_id, attempt=effect.attempt)
    pods = SimulatedPods(effect, plan, after(effect.at, delay_s))
    if effect.preflight is not None:
        purpose = f"{effect.job_id}/{effect.attempt}"
        drawn_s = checks_s(behaviour.work, effect.preflight.checks, seed=behaviour.seed, purpose=purpose)
        pods.checks_s = None if never_reports(effect.spec) else drawn_s
    return pods
