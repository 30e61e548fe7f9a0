"""Before the first step: the gate, the gang that waits again away from what failed, and the end of a crash loop."""

import pytest

from kit.scheduler import VirtualScheduler, belief, ledger_balances
from kit.scheduler_yard import elastic
from muster.scheduler.core import answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.lifecycle.preflight import EXCLUDED_S, FAILURES_MAX, UNJUDGED_S
from muster.schemas.facts.job import PodsExited, PodsOutcome, QueuedReason, StopReason
from muster.schemas.facts.operations import CheckOrder, PreflightFailed, PreflightPassed, PreflightPlan
from muster.schemas.job import Job, JobSpec, Phase
from muster.schemas.queries import AskJob

PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"),), limit_s=100.0)


def checked(nodes: int = 2, *, gpus: int = 2, plan: PreflightPlan = PLAN, blame_s: float = 0.0) -> VirtualScheduler:
    """A cluster where jobs are checked unless they name "none"."""

    def plan_of(spec: JobSpec) -> PreflightPlan | None:
        return None if spec.preflight == "none" else plan

    return VirtualScheduler(nodes=nodes, gpus=gpus, limits=Limits(plan_of=plan_of, blame_s=blame_s))


def attempt(world: VirtualScheduler, one: Job) -> int:
    return world.core.state.jobs.records[one.id].attempt


def passed(world: VirtualScheduler, one: Job) -> None:
    payload = PreflightPassed(attempt=attempt(world, one), suite="quick")
    world.write("health", "job", one.id, "preflight-passed", payload)
    world.settle()


def failed(world: VirtualScheduler, one: Job, *nodes: str) -> None:
    payload = PreflightFailed(
        attempt=attempt(world, one), suite="quick", nodes=nodes, reason="2 GPUs asked for, 1 seen"
    )
    world.write("health", "job", one.id, "preflight-failed", payload)
    world.settle()


def gone(world: VirtualScheduler, one: Job, outcome: str = "stopped", *, node: str = "") -> None:
    payload = PodsExited(attempt=attempt(world, one), outcome=PodsOutcome(outcome), node=node, exit_code=7)
    world.write("agent", "job", one.id, "pods-exited", payload)
    world.settle()


def nodes_of(world: VirtualScheduler, one: Job) -> set[str]:
    return {node for node, _ in world.slots(one)}


def test_the_plan_stands_in_placed_and_the_gate_opens_when_it_passed() -> None:
    world = checked()
    one = world.submit("one")
    assert world.last("placed", one.id).payload.preflight == PLAN
    world.started(one)
    assert world.phase(one) is Phase.PLACED
    passed(world, one)
    running = world.last("running", one.id)
    assert running.payload.preflight == "quick"
    assert set(running.causes) == {world.last("pods-started", one.id).id, world.last("preflight-passed", one.id).id}


def test_a_verdict_that_comes_before_the_pods_are_told_to_run_waits_for_them() -> None:
    world = checked()
    one = world.submit("one")
    passed(world, one)
    assert world.phase(one) is Phase.PLACED
    world.started(one)
    assert world.phase(one) is Phase.RUNNING


def test_a_job_without_a_plan_runs_when_its_pods_do() -> None:
    world = checked()
    one = world.submit("one", preflight="none")
    world.started(one)
    assert world.last("running", one.id).payload.preflight == "null"


def test_a_gang_that_failed_waits_again_whole_away_from_the_node_and_uses_no_retry() -> None:
    world = checked(nodes=3, gpus=1)
    gang = world.submit("gang", replicas=2)
    world.started(gang)
    bad, good = sorted(nodes_of(world, gang))
    failed(world, gang, bad)
    stop = world.last("stop-requested", gang.id).payload
    assert (stop.reason, stop.grace_s) == (StopReason.NODE_LOST, 0)
    gone(world, gang, "failed")
    queued = world.last("queued", gang.id).payload
    assert (queued.reason, [one.node for one in queued.excluded]) == (QueuedReason.PREFLIGHT_FAILED, [bad])
    assert queued.detail == f"quick failed on {bad}: 2 GPUs asked for, 1 seen"
    record = world.core.state.jobs.records[gang.id]
    assert (record.retries_used, record.node_losses, record.attempt) == (0, 0, 2)
    assert nodes_of(world, gang) == {"n0", "n1", "n2"} - {bad}
    assert good in nodes_of(world, gang)
    ledger_balances(world.core)


def test_others_may_use_the_node_that_one_job_is_kept_off() -> None:
    world = checked(nodes=1)
    one = world.submit("one")
    failed(world, one, "n0")
    gone(world, one)
    assert world.phase(one) is Phase.QUEUED
    other = world.submit("other")
    assert nodes_of(world, other) == {"n0"}
    why = answers.answer_why(world.core, AskJob(job_id=one.id), world.now)
    assert why.detail.endswith("it is kept off n0, where a run of it failed its checks")
    assert (why.job.preflight_failures, why.job.excluded) == (1, ("n0",))


def test_nobody_makes_way_for_it_where_it_is_kept_off() -> None:
    world = checked(nodes=2, gpus=1)
    stays, high = world.submit("stays", preemptible=False), world.submit("high", priority=90)
    world.started(stays)
    passed(world, stays)
    failed(world, high, *nodes_of(world, high))
    gone(world, high)
    low = world.submit("low", priority=10, min_slice_s=0.0)
    world.started(low)
    passed(world, low)
    world.advance(3_600)
    assert (world.phase(high), world.phase(low)) == (Phase.QUEUED, Phase.RUNNING)


def test_an_elastic_job_does_not_grow_to_where_it_is_kept_off() -> None:
    world = checked(nodes=2, gpus=1)
    one = elastic("one", least=1, replicas=2, queue="lab")
    world.route(one)
    world.settle()
    bad = min(nodes_of(world, one))
    failed(world, one, bad)
    gone(world, one)
    world.started(one, attempt=2)
    passed(world, one)
    world.advance(600)
    assert (world.phase(one), nodes_of(world, one)) == (Phase.RUNNING, {"n0", "n1"} - {bad})
    assert "resize-requested" not in world.names(one)


def test_after_a_while_it_is_tried_there_again() -> None:
    world = checked(nodes=1)
    one = world.submit("one")
    failed(world, one, "n0")
    gone(world, one)
    world.advance(EXCLUDED_S - 1)
    assert world.phase(one) is Phase.QUEUED
    world.advance(2)
    assert world.phase(one) is Phase.PLACED


def test_a_crash_loop_ends_and_says_why() -> None:
    world = checked(nodes=8)
    one = world.submit("one", retries=100)
    for _ in range(FAILURES_MAX):
        assert world.phase(one) is Phase.PLACED
        failed(world, one, *nodes_of(world, one))
        gone(world, one)
    assert world.phase(one) is Phase.FAILED
    reason = world.last("failed", one.id).payload.reason
    assert reason.startswith(
        f"preflight: {FAILURES_MAX} runs in a row ended before their first step; quick failed on n"
    )


def test_a_run_that_came_to_its_first_step_ends_the_row() -> None:
    world = checked(nodes=8)
    one = world.submit("one", retries=1)
    for _ in range(FAILURES_MAX - 1):
        failed(world, one, *nodes_of(world, one))
        gone(world, one)
    world.started(one, attempt=attempt(world, one))
    passed(world, one)
    assert world.core.state.jobs.records[one.id].preflight_failures == 0
    gone(world, one, "failed")
    assert world.last("queued", one.id).payload.reason is QueuedReason.RETRY


@pytest.mark.parametrize("blame_s", [0.0, 12.0])
def test_pods_that_end_with_an_error_before_the_gate_opened_use_no_retry_and_wait_for_nobody(blame_s: float) -> None:
    world = checked(blame_s=blame_s)
    one = world.submit("one")
    world.started(one)
    gone(world, one, "failed", node="n0")
    queued = world.last("queued", one.id).payload
    assert (queued.reason, [one.node for one in queued.excluded]) == (QueuedReason.PREFLIGHT_FAILED, ["n0"])


@pytest.mark.parametrize(("passes", "phase"), [(True, Phase.RUNNING), (False, Phase.STOPPING)])
def test_if_nobody_judges_the_plan_says_what_that_means(passes: bool, phase: Phase) -> None:
    world = checked(plan=PLAN.model_copy(update={"cannot_run_passes": passes}))
    one = world.submit("one")
    world.started(one)
    world.advance(PLAN.limit_s + UNJUDGED_S - 1)
    assert world.phase(one) is Phase.PLACED
    world.advance(2)
    assert world.phase(one) is phase


def test_a_verdict_on_another_run_or_a_second_one_changes_nothing() -> None:
    world = checked()
    one = world.submit("one")
    world.write("health", "job", one.id, "preflight-passed", PreflightPassed(attempt=9, suite="quick"))
    world.started(one)
    assert world.phase(one) is Phase.PLACED
    passed(world, one)
    failed(world, one, "n0")
    assert world.phase(one) is Phase.RUNNING
    assert world.core.state.anomalies["preflight-failed of no waiting run"] == 1


def test_a_job_that_is_checked_can_be_cancelled() -> None:
    world = checked()
    one = world.submit("one")
    world.started(one)
    world.cancel(one)
    gone(world, one)
    assert world.phase(one) is Phase.CANCELLED


def test_cores_that_fold_the_log_or_a_checkpoint_believe_the_same() -> None:
    world = checked(nodes=3)
    one, two = world.submit("one"), world.submit("two")
    failed(world, one, *nodes_of(world, one))
    gone(world, one)
    world.started(two)
    failed(world, two, *nodes_of(world, two))
    assert belief(world.refold()) == belief(world.core)
    recovered = belief(world.recover())
    assert recovered["jobs"] == belief(world.core)["jobs"]  # type: ignore[index]
    assert recovered["pending"] == belief(world.core)["pending"]  # type: ignore[index]
