"""Who holds which device, as the log says."""

from kit.telemetry import VirtualTelemetry, job_id, slot, uuid
from muster.core import Draft
from muster.schemas.facts.job import (
    JobPlaced,
    JobQueued,
    JobResized,
    JobResizeRequested,
    JobState,
    PodsExited,
    PodsOutcome,
    QueuedReason,
)
from muster.schemas.facts.node import NodeLeft, NodeLost, NodeReturned
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup
from muster.schemas.registry import STATE_NAME
from muster.telemetry.core.holdings import Holdings


def test_devices_belong_to_a_job_from_its_placement_to_the_exit_of_its_pods() -> None:
    harness = VirtualTelemetry()
    harness.join("n1", "n2")
    job = harness.place(0, slot("n1", 0, 1), slot("n2", 7))
    assert harness.core.holdings.holders("n1") == {uuid("n1", 0): {job: 1000}, uuid("n1", 1): {job: 1000}}
    assert harness.core.holdings.holders("n2") == {uuid("n2", 7): {job: 1000}}
    assert job in harness.core.holdings.holding
    harness.exit(job)
    assert harness.core.holdings.holders("n1") == harness.core.holdings.holders("n2") == {}
    assert job not in harness.core.holdings.holding, "a page that still names it is behind"


def test_a_device_may_be_shared() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    first, second = harness.place(0, slot("n1", 3, milli=300)), harness.place(1, slot("n1", 3, milli=500))
    assert harness.core.holdings.holders("n1") == {uuid("n1", 3): {first: 300, second: 500}}


def test_where_the_kubelet_picks_what_was_observed_counts() -> None:
    harness = VirtualTelemetry()
    harness.join("n1", "n2")
    job = harness.place(0, slot("n1", gpus=1), slot("n2", gpus=2), picked=(("GPU-a",), ("GPU-b", "GPU-c")))
    assert harness.core.holdings.holders("n1") == {"GPU-a": {job: 1000}}
    assert harness.core.holdings.holders("n2") == {"GPU-b": {job: 1000}, "GPU-c": {job: 1000}}


def test_a_job_that_is_queued_again_holds_nothing() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    job = harness.place(0, slot("n1", 0))
    queued = JobQueued(queue="other", attempt=2, reason=QueuedReason.NODE_LOST)
    harness.write("scheduler", "job", job, "queued", queued)
    assert harness.core.holdings.holders("n1") == {}
    assert harness.core.holdings.jobs[job].queue == "other"


def test_what_a_job_grows_into_is_its_own_from_the_request_on_and_what_it_gives_up_until_it_is_resized() -> None:
    harness = VirtualTelemetry()
    harness.join("n1", "n2", "n3")
    job = harness.place(0, slot("n1", 0), slot("n2", 0))
    placed_at, harness.now_s = harness.core.holdings.placed_at(job), 100.0
    wanted = (slot("n1", 0), slot("n3", 0))
    harness.write("scheduler", "job", job, "resize-requested", JobResizeRequested(attempt=1, slots=wanted))
    assert [bool(harness.core.holdings.holders(node)) for node in ("n1", "n2", "n3")] == [True, True, True]
    harness.write("scheduler", "job", job, "resized", JobResized(attempt=1, slots=wanted))
    assert [bool(harness.core.holdings.holders(node)) for node in ("n1", "n2", "n3")] == [True, False, True]
    assert harness.core.holdings.placed_at(job) == placed_at, "it has held something since then"


def test_what_is_told_late_of_an_earlier_run_takes_nothing_away() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    job = harness.place(0, slot("n1", 0))
    harness.write("scheduler", "job", job, "queued", JobQueued(queue="lab", attempt=2))
    harness.write("scheduler", "job", job, "placed", JobPlaced(attempt=2, slots=(slot("n1", 1),)))
    harness.exit(job)
    assert harness.core.holdings.holders("n1") == {uuid("n1", 1): {job: 1000}}


def test_a_checkpoint_says_who_holds_what_and_whose_pods_exited() -> None:
    harness, states = VirtualTelemetry(), []
    harness.join("n1")
    for number, exited in enumerate((None, PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED))):
        spec = JobSpec(name="train", team="lab", task_groups=(TaskGroup(),))
        job = Job(id=job_id(number), spec=spec, principal="ada", idempotency_key="k", body_hash="h")
        slots = (slot("n1", number),)
        states.append(JobState(job=job, phase=Phase.RUNNING, slots=slots, exited=exited, placed_at=7, queue="fast"))
        harness.core.apply(*harness.state_facts("scheduler", [Draft("job", job.id, STATE_NAME, states[-1])]))
    running, exited_job = (state.job.id for state in states)
    assert harness.core.holdings.holders("n1") == {uuid("n1", 0): {running: 1000}}
    assert harness.core.holdings.placed_at(running) == 7
    assert harness.core.holdings.jobs[exited_job].queue == "fast"
    assert exited_job not in harness.core.holdings.holding


def test_nodes_come_and_go() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    harness.write("agent", "node", "n1", "lost", NodeLost())
    assert harness.core.holdings.nodes["n1"].is_lost
    harness.write("agent", "node", "n1", "returned", NodeReturned())
    assert not harness.core.holdings.nodes["n1"].is_lost
    job = harness.place(0, slot("n1", 0))
    harness.write("agent", "node", "n1", "left", NodeLeft())
    assert harness.core.holdings.nodes == {}
    assert harness.core.holdings.holders("n1") == {}, "nobody can say which devices it had"
    harness.join("n1")
    assert harness.core.holdings.holders("n1") == {uuid("n1", 0): {job: 1000}}


def test_what_is_said_of_a_job_that_is_not_known_is_counted() -> None:
    harness = VirtualTelemetry()
    harness.exit("X" * 26)
    harness.write("scheduler", "job", "X" * 26, "queued", JobQueued(queue="lab", attempt=1))
    assert harness.core.holdings.holds.anomalies == {"pods-exited": 1}
    assert harness.core.holdings.anomalies == {"queued": 1}
    assert Holdings().holders("nowhere") == {}
