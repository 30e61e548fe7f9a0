"""A checkpoint may fall after any fact: whoever starts from it believes what the others believe, and decides alike."""

import json

from kit.scheduler import VirtualScheduler, job
from kit.scheduler_checkpoints import Watched
from muster.core import Draft
from muster.schemas.facts.job import JobCancelRequested, JobState, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.job_requests import Ask
from muster.schemas.facts.node import WithholdRequested
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job


def exit_of(world: VirtualScheduler, one: Job, outcome: PodsOutcome, *, attempt: int = 1) -> None:
    payload = PodsExited(attempt=attempt, outcome=outcome, exit_code=1, ran_s=3.0)
    world.write("agent", "job", one.id, "pods-exited", payload)


def test_a_checkpoint_after_any_fact_of_a_full_life() -> None:
    world = Watched(nodes=2, gpus=2)
    one, two, gang = job("one", retries=2), job("two", gpus=2), job("gang", replicas=3, priority=40)
    world.route(one, two, gang)
    world.settle()
    world.write("agent", "job", one.id, "pods-started", PodsStarted(attempt=1))
    exit_of(world, one, PodsOutcome.FAILED)
    world.settle()
    world.cancel(two)
    exit_of(world, two, PodsOutcome.STOPPED)
    world.settle()
    world.lose("n0")
    exit_of(world, one, PodsOutcome.NODE_LOST, attempt=2)
    world.settle()
    world.back("n0")
    world.advance(20)
    assert len(world.log) > 30


def test_a_checkpoint_after_any_fact_of_a_job_that_is_held_released_and_moved_in_line() -> None:
    world = Watched(nodes=1, gpus=1)
    runs, first, second = (world.submit(name) for name in ("runs", "first", "second"))
    world.ask(first, Ask.HOLD, reason="wrong data")
    world.ask(second, Ask.PRIORITY, priority=70)
    world.settle()
    world.ask(first, Ask.PRIORITY, priority=90)
    world.ask(first, Ask.RELEASE)
    world.ask(runs, Ask.HOLD)
    world.settle()
    world.advance(10)
    world.exited(runs)
    assert world.names(first)[-1] == "placed", "it is first by its new priority"
    assert world.names(runs).count("hold-refused") == 1


def test_a_checkpoint_between_a_wish_and_its_answer() -> None:
    world = Watched(nodes=1, gpus=2, queues=("lab", "b"))
    one = world.submit("one")
    world.write("composer", "node", "n0", "withhold-requested", WithholdRequested(request_id="a"))
    world.write("composer", "device", "n0-gpu-0", "withhold-requested", WithholdRequested(request_id="b", force=True))
    world.settle()
    spec = QueueSpec(name="lab", parent="b", gpu_milli_limit=1_000)
    payload = QueueChangeRequested(spec=spec, principal="root")
    world.write("federation", "queue", "lab", "change-forwarded", payload)
    world.settle()
    world.exited(one)
    assert world.count("n0", "withheld") == world.count("n0-gpu-0", "withheld") == 1


def test_a_full_node_job_keeps_its_whole_node_over_a_checkpoint() -> None:
    world = Watched(nodes=1, gpus=2)
    world.submit("one", gpus=1, full_node=True)
    world.submit("two", gpus=0)
    assert world.core.state.fleet._ledger.nodes["n0"].cpu_milli == 0


def test_a_state_that_older_code_wrote_is_a_record_with_all_that_it_leaves_out() -> None:
    world, one = VirtualScheduler(), job("one", priority=30, total_run_time_s=900, min_slice_s=60)
    older = {"job": json.loads(one.model_dump_json()), "phase": "queued", "queue": "lab", "routed_seq": 7}
    body = JobState.model_validate_json(json.dumps(older | {"retries_used": 2, "cancel_requested": False}))
    world.core.apply(*world.state_facts("scheduler", [Draft("job", one.id, "state-recorded", body)]))
    record = world.core.state.jobs.records[one.id]
    assert (record.total_run_time_s, record.min_slice_s) == (900, 60), "as the job says"
    assert (record.rank, record.failures_in_row) == (7, 2), "what counted before there were these"
    assert (record.priority, record.effective_priority) == (None, 30)
    record.attempt = 5
    assert body.attempt == 1, "the fact itself may be read by others"


def test_a_state_is_written_again_as_it_was_read() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    runs, waits = world.submit("runs"), world.submit("waits")
    world.ask(runs, Ask.HOLD, reason="wrong data")
    world.ask(waits, Ask.PRIORITY, priority=70)
    world.settle()
    world.write("federation", "job", runs.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
    written = [draft.payload.model_dump_json() for draft in world.core.snapshot() if draft.kind == "job"]
    told = [json.loads(body) for body in written]
    assert sorted((state["cancel_requested"], state["priority"]) for state in told) == [(False, 70), (True, None)]
    for body in written:
        state = JobState.model_validate_json(body)
        assert world.core.state.jobs.restored(state).as_body(JobState).model_dump_json() == body
