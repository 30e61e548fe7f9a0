"""Over random histories a job is never placed where it is kept off, whichever way it finds its place."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scheduler import VirtualScheduler, belief, job, ledger_balances
from kit.scheduler_yard import elastic
from muster.core import NS_PER_S, Instant
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.job import JobPlaced, JobQueued, JobResizeRequested, PodsExited, PodsOutcome
from muster.schemas.facts.operations import CheckOrder, PreflightFailed, PreflightPassed, PreflightPlan
from muster.schemas.job import Phase

PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"),))
JOBS = [
    job("one", gpus=1, min_slice_s=0.0),
    job("two", gpus=2, queue="b", min_slice_s=0.0),
    job("gang", gpus=1, replicas=3, queue="b", min_slice_s=0.0),
    job("high", gpus=2, priority=90, min_slice_s=0.0),
    elastic("wide", least=1, replicas=3, queue="b", min_slice_s=0.0),
    job("share", gpu_milli=500),
]
OPS = ("route", "route", "fail", "fail", "fail", "pass", "start", "exit", "wait", "starve")
HISTORY = st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 5)), min_size=10, max_size=60)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY)
def test_no_job_gets_a_place_on_a_node_that_it_is_kept_off(history: list[tuple[str, int]]) -> None:
    world = VirtualScheduler(nodes=4, gpus=2, queues=("lab", "b"), limits=Limits(plan_of=lambda _: PLAN))
    routed: set[str] = set()
    for op, which in history:
        one = JOBS[which]
        record = world.core.state.jobs.records.get(one.id)
        match op:
            case "route" if one.id not in routed:
                routed.add(one.id)
                world.route(one)
            case "fail" if record is not None and record.phase is Phase.PLACED:
                bad = record.slots[which % len(record.slots)].node
                verdict = PreflightFailed(attempt=record.attempt, suite="quick", nodes=(bad,), reason="sick")
                world.write("health", "job", one.id, "preflight-failed", verdict)
            case "pass" if record is not None and record.phase is Phase.PLACED:
                passed = PreflightPassed(attempt=record.attempt, suite="quick")
                world.write("health", "job", one.id, "preflight-passed", passed)
            case "start" if record is not None and record.phase is Phase.PLACED:
                world.started(one, attempt=record.attempt)
            case "exit" if record is not None and record.phase in (Phase.RUNNING, Phase.STOPPING):
                gone = PodsExited(attempt=record.attempt, outcome=PodsOutcome.STOPPED)
                world.write("agent", "job", one.id, "pods-exited", gone)
            case "wait":
                world.now = Instant(world.now + (which + 1) * 1_200 * NS_PER_S)
            case "starve":
                world.now = Instant(world.now + 2_000 * NS_PER_S)
        world.settle()
    check(world)
    ledger_balances(world.core)
    assert belief(world.refold())["jobs"] == belief(world.core)["jobs"]  # type: ignore[index]


def check(world: VirtualScheduler) -> None:
    """Told from the log alone: nodes in `excluded` until their moment, and slots of `placed` and of growth."""
    until: dict[tuple[str, str], int] = {}
    had: dict[str, set[str]] = {}
    for fact in world.log:
        match fact.payload:
            case JobQueued(excluded=excluded):
                until |= {(fact.subject_id, one.node): one.until for one in excluded}
            case JobPlaced(slots=slots) | JobResizeRequested(slots=slots):
                nodes = {slot.node for slot in slots}
                new = nodes if fact.name == "placed" else nodes - had[fact.subject_id]
                had[fact.subject_id] = nodes
                assert all(until.get((fact.subject_id, node), 0) <= fact.time for node in new)
