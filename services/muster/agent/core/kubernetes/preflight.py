"""Results of the checks before the first step of a job's pods, and the gate that waits for the verdict.

`muster-preflight` runs the checks and leaves the results in its termination message; it always succeeds, so that the
gang stays until there is a verdict. `muster-gate` waits until the agent writes the verdict into an annotation, which it
reads through a downward-API volume: the pod needs no token, network or exec.
"""

from collections.abc import Iterator
from itertools import islice

from muster.agent.core.cluster import RESULTS_PER_FACT, ChecksSeen
from muster.agent.core.kubernetes.calls import Done, Kind, Merge, Outcome, Refused
from muster.agent.core.kubernetes.context import Context, OpenPodGate
from muster.agent.core.kubernetes.live import LiveAttempt, LivePod, was_turned_away
from muster.agent.core.kubernetes.names import (
    GATE_ANNOTATION,
    OPEN,
)
from muster.agent.core.kubernetes.pods import plan_apart
from muster.checks.plan import orders_for
from muster.checks.report import cannot_run, load
from muster.core import Instant, after
from muster.kube.objects import JsonObject
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult, PreflightPlan

AGAIN_S = 15.0
"""Before a gate is opened again after the API server refused it: a permission may be granted."""
STUCK_S = 60.0
"""After the opening of a gate: checks that still run then hang in the kernel (a wedged GPU)."""
NO_IMAGE = "no image for checks is set (`preflight.image`)"
NO_GATE = "the agent lacks the permission to open gates"
_WORST = {CheckOutcome.PASS: 0, CheckOutcome.CANNOT_RUN: 1, CheckOutcome.FAIL: 2}


def next_report(one: LiveAttempt) -> ChecksSeen | None:
    """Return the results to report now: failures at once, the rest when all are known.

    Pods of one node are combined: the worst result of a check counts.
    """
    plan = one.order.preflight
    is_late = one.checks_apart and not one.is_checking
    if plan is None or not one.started_at or one.checks_told or one.is_ending or is_late:
        return None
    results: dict[tuple[str, str], CheckResult] = {}
    is_whole = True
    for pod in one.pods.values():
        found = found_of(plan, pod, gpus=_gpus(one, pod))
        is_whole = is_whole and found is not None
        for result in found or ():
            key = (result.node, result.check)
            before = results.get(key)
            if before is None or _WORST[result.outcome] > _WORST[before.outcome]:
                results[key] = result
    untold = (result for key, result in results.items() if key not in one.found_told)
    if not is_whole:
        untold = (result for result in untold if result.outcome is CheckOutcome.FAIL)
    part = tuple(islice(untold, RESULTS_PER_FACT))
    is_last = is_whole and next(untold, None) is None
    return ChecksSeen(*one.key, part, is_last=is_last) if part or is_last else None


def found_of(plan: PreflightPlan, pod: LivePod, *, gpus: int) -> tuple[CheckResult, ...] | None:
    """Return the results of the pod's checks; None while unknown."""
    node, view = pod.slot.node, pod.view
    if pod.is_adopted:
        return tuple(cannot_run(plan.checks, node=node, why=NO_IMAGE))
    if pod.is_check:
        return _found_apart(plan, pod, gpus=gpus)
    seen = view.preflight if view is not None else None
    if seen is None and view is not None and (view.is_running or pod.end is not None) and not _is_refused(pod):
        return tuple(
            cannot_run(plan.checks, node=node, why=f"its pod was created without checks: {NO_GATE}, or {NO_IMAGE}")
        )
    if seen is None or seen.report is None:
        return None
    if seen.exit_code:
        why = f"the container of the checks ended with {seen.exit_code}: {seen.report}"
        return tuple(cannot_run(plan.checks, node=node, why=why))
    mine = orders_for(plan, gpus=gpus)
    return (*load(seen.report, mine, node=node), *_not_here(plan.checks, mine, node))


def _found_apart(plan: PreflightPlan, pod: LivePod, *, gpus: int) -> tuple[CheckResult, ...] | None:
    """Return the results of a check pod, in its termination message. One that fails ends its gang."""
    node = pod.slot.node
    if pod.unmade:
        why = f"the check pod cannot be created: {pod.unmade}"
        return tuple(cannot_run(plan.checks, node=node, why=why))
    if pod.end is None or not pod.end.succeeded:
        return None
    here = plan_apart(plan)
    mine = orders_for(here, gpus=gpus)
    not_tried = tuple(one for one in plan.checks if one not in here.checks)
    return (
        *load(pod.end.said, mine, node=node),
        *_not_here(here.checks, mine, node),
        *cannot_run(not_tried, node=node, why="the check pod has no volumes of the job"),
    )


def _not_here(all_orders: tuple[CheckOrder, ...], mine: tuple[CheckOrder, ...], node: str) -> Iterator[CheckResult]:
    """Yield passes for checks of devices that the pod does not have."""
    for order in all_orders:
        if order not in mine:
            yield CheckResult(node=node, check=order.check, outcome=CheckOutcome.PASS, detail="nothing to check here")


def _is_refused(pod: LivePod) -> bool:
    return pod.end is not None and was_turned_away(pod.end)


def _is_in_checks(pod: LivePod) -> bool:
    seen = pod.view.preflight if pod.view is not None else None
    return seen is not None and seen.report is None and not pod.is_over


def _gpus(one: LiveAttempt, pod: LivePod) -> int:
    group = one.order.spec.task_groups[pod.slot.group]
    return 0 if group.gpu_milli else pod.slot.gpu_count or group.gpus


class PreflightGates:
    """Opens the gates of attempts whose first step may begin."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def open(self, one: LiveAttempt) -> None:
        """Open the gate of every pod that has not passed it; may be repeated."""
        for pod in one.pods.values():
            seen = pod.view.preflight if pod.view is not None else None
            if seen is not None and not seen.is_open and not pod.is_opened and pod.exists:
                body: JsonObject = {"metadata": {"uid": pod.uid, "annotations": {GATE_ANNOTATION: OPEN}}}
                call = Merge(Kind.PODS, pod.namespace, pod.name, body)
                self._context.worklist.ask(OpenPodGate(pod.key, pod.number), call, is_urgent=True)

    def stuck(self, one: LiveAttempt, now: Instant) -> LivePod | None:
        """Return a pod that can never begin because its checks hang. Pods of elastic jobs may have come later."""
        if not one.awaits_first_step:
            one.awaits_first_step = True
            self._context.due.mark_at(one.key, after(now, STUCK_S))
        if now < after(one.opened_at, STUCK_S) or any(group.min_replicas for group in one.order.spec.task_groups):
            return None
        return next((pod for pod in one.pods.values() if _is_in_checks(pod)), None)

    def forget(self, pod: LivePod) -> None:
        """Cancel the opening of the pod's gate."""
        self._context.worklist.cancel(OpenPodGate(pod.key))

    def answered(self, one: LiveAttempt, pod: LivePod, outcome: Outcome, now: Instant) -> None:
        """Continue after the opening of its gate."""
        match outcome:
            case Done():
                pod.is_opened = True
            case Refused(code=404) | Refused(code=409):
                pass  # it is gone; its watch reports it
            case Refused():
                self._context.notes.refused += 1
                self._context.notes.say(f"cannot open the gate of pod {pod.name}: {outcome.message}")
                self._context.due.mark_at(one.key, after(now, AGAIN_S))
