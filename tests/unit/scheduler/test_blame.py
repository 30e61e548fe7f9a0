"""Whose failure it was: the job's own, which uses a retry, or that of what it ran on, which does not."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.closing import ask, checkpointed
from kit.scheduler import VirtualScheduler
from muster.bus.settings import Settings
from muster.core import after
from muster.scheduler.app import blame_s_of
from muster.scheduler.core import answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.lifecycle.follow_ups import NODE_LOSSES_MAX, READ_LATELY_S
from muster.schemas.facts.job import JobQueued, JobState, QueuedReason
from muster.schemas.facts.telemetry import JobUseReported, Use
from muster.schemas.job import Checkpointing, Job, JobKind, Phase
from muster.schemas.queries import AskJob

BLAME_S = 12.0


def running(world: VirtualScheduler, name: str = "one", **spec: object) -> Job:
    one = world.submit(name, **spec)
    world.started(one)
    return one


def watched() -> VirtualScheduler:
    """A cluster whose hardware health watches."""
    return VirtualScheduler(nodes=2, gpus=2, limits=Limits(blame_s=BLAME_S))


@pytest.mark.parametrize("kind", ["node", "device"])
def test_an_error_on_what_health_withholds_is_no_failure_of_the_job(kind: str) -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    one = running(world)
    ((node, (device,)),) = world.slots(one)
    ask(world, node if kind == "node" else f"{node}-gpu-{device}", kind=kind, by="health")
    world.exited(one, "failed", exit_code=1)
    queued = world.last("queued", one.id).payload
    assert queued.reason is QueuedReason.NODE_LOST
    assert queued.detail.startswith(f"health withholds {kind}")


def test_what_others_withhold_or_another_device_is_no_excuse() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    one = running(world)
    ((_, (device,)),) = world.slots(one)
    ask(world, "n0", by="upgrader")
    ask(world, f"n0-gpu-{1 - device}", kind="device", by="health", request="h")
    world.exited(one, "failed", exit_code=1)
    assert world.phase(one) is Phase.FAILED


def test_where_health_watches_an_error_is_judged_a_moment_later() -> None:
    world = watched()
    one = running(world)
    ((node, _),) = world.slots(one)
    world.exited(one, "failed", exit_code=1)
    assert world.phase(one) is Phase.RUNNING
    world.advance(BLAME_S / 2)
    ask(world, node, by="health")
    world.settle()
    assert world.last("queued", one.id).payload.reason is QueuedReason.NODE_LOST
    assert world.core.state.jobs.records[one.id].retries_used == 0


def test_if_health_finds_nothing_it_was_the_job() -> None:
    world = watched()
    one = running(world, retries=1)
    world.exited(one, "failed", exit_code=1)
    world.advance(BLAME_S - 1)
    assert world.phase(one) is Phase.RUNNING
    world.advance(2)
    assert world.last("queued", one.id).payload.reason is QueuedReason.RETRY


@pytest.mark.parametrize("how", ["succeeded", "node-lost", "no-gpu", "cancelled"])
def test_nothing_else_is_waited_for(how: str) -> None:
    world = watched()
    one = running(world, gpus=0 if how == "no-gpu" else 1)
    if how == "cancelled":
        world.cancel(one)
    world.exited(one, "failed" if how in ("no-gpu", "cancelled") else how)
    assert world.phase(one) is not Phase.RUNNING


def test_the_view_tells_failures_apart_and_the_work_that_was_lost() -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    one = running(world, retries=3, checkpointing=Checkpointing(interval_s=600))
    world.advance(600)
    checkpointed(world, one)
    world.advance(40)
    world.exited(one, "node-lost", ran_s=640)
    world.started(one, attempt=2)
    world.advance(100)
    world.exited(one, "failed", attempt=2, exit_code=1, ran_s=100)
    view = answers.answer_why(world.core, AskJob(job_id=one.id), world.now).job
    assert view is not None
    assert (view.node_losses, view.retries_used, view.retries) == (1, 1, 3)
    assert (view.lost_s, view.lost_last_s) == (140.0, 100.0)
    recovered = answers.answer_job(world.recover(), AskJob(job_id=one.id), world.now).job
    assert recovered == view


@pytest.mark.parametrize("progress", ["none", "checkpoint", "an-hour"])
def test_losses_between_which_nothing_came_of_it_are_bounded_and_others_are_not(progress: str) -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", total_run_time_s=90 * 86_400.0)
    for number in range(1, NODE_LOSSES_MAX + 2):
        world.started(one, attempt=number)
        world.advance(3_600 if progress == "an-hour" else 60)
        if progress == "checkpoint":
            checkpointed(world, one, attempt=number)
        world.exited(one, "node-lost", attempt=number, ran_s=60)
    assert (world.phase(one) is Phase.FAILED) is (progress == "none")
    assert world.core.state.jobs.records[one.id].node_losses >= NODE_LOSSES_MAX


CHECKPOINTS = Checkpointing(interval_s=600)


@pytest.mark.parametrize(
    ("spec", "progress", "ends"),
    [
        pytest.param({}, "none", True, id="crash-loop"),
        pytest.param({"checkpointing": CHECKPOINTS}, "none", True, id="crash-loop-of-one-with-checkpoints"),
        pytest.param({}, "checkpoint", False, id="told-of-a-checkpoint"),
        pytest.param({"checkpointing": CHECKPOINTS}, "an-hour", False, id="checkpoints-untold"),
        pytest.param({"kind": JobKind.INFERENCE}, "an-hour", False, id="serves"),
        pytest.param({}, "an-hour", True, id="begins-anew-each-time"),
    ],
)
def test_retries_bound_failures_in_a_row_without_progress(spec: dict[str, object], progress: str, ends: bool) -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=2, total_run_time_s=90 * 86_400.0, **spec)
    for attempt in range(1, 7):
        if world.phase(one) is Phase.FAILED:
            break
        run(world, one, attempt, progress)
    assert (world.phase(one) is Phase.FAILED) is ends
    record = world.core.state.jobs.records[one.id]
    assert (record.retries_used, record.failures_in_row) == ((2, 2) if ends else (6, 1))


def run(world: VirtualScheduler, one: Job, attempt: int, progress: str, *, outcome: str = "failed") -> None:
    """One run that comes so far and ends so."""
    world.started(one, attempt=attempt)
    world.advance(3_600 if progress == "an-hour" else 60)
    if progress == "checkpoint":
        checkpointed(world, one, attempt=attempt)
    world.exited(one, outcome, attempt=attempt, exit_code=1, ran_s=60)


def test_who_has_no_retry_fails_with_the_first_failure_however_far_it_came() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=0)
    run(world, one, 1, "checkpoint")
    assert world.phase(one) is Phase.FAILED
    assert world.last("failed", one.id).payload.reason == "exit code 1"


def test_progress_ends_a_row_also_in_a_run_that_ended_for_another_reason() -> None:
    world = VirtualScheduler(nodes=2)
    one = world.submit("one", retries=1)
    run(world, one, 1, "none")
    run(world, one, 2, "checkpoint", outcome="node-lost")
    run(world, one, 3, "none")
    assert world.phase(one) is Phase.PLACED
    run(world, one, 4, "none", outcome="node-lost")
    run(world, one, 5, "none")
    assert world.last("failed", one.id).payload.reason == "exit code 1; 2 failures in a row without progress"


def test_what_an_older_log_says_counts_as_it_did_then() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=5)
    for attempt in (1, 2):
        world.started(one, attempt=attempt)
        checkpointed(world, one, attempt=attempt)
        said = JobQueued(queue="lab", attempt=attempt + 1, reason=QueuedReason.RETRY)
        world.write("scheduler", "job", one.id, "queued", said)
        world.settle()
    record = world.core.state.jobs.records[one.id]
    assert (record.retries_used, record.failures_in_row) == (2, 2)
    older = record.as_body(JobState)
    older.failures_in_row = None
    assert world.core.state.jobs.restored(older).failures_in_row == 2


@settings(max_examples=60, deadline=None)
@given(
    retries=st.integers(0, 3),
    runs=st.lists(
        st.tuples(st.sampled_from(["none", "checkpoint", "an-hour"]), st.sampled_from(["failed", "node-lost"])),
        max_size=9,
    ),
)
def test_it_ends_at_the_first_row_that_is_too_long_and_at_no_other_moment(
    retries: int, runs: list[tuple[str, str]]
) -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=retries, checkpointing=CHECKPOINTS, total_run_time_s=90 * 86_400.0)
    row = 0
    for attempt, (progress, outcome) in enumerate(runs, start=1):
        run(world, one, attempt, progress, outcome=outcome)
        row = (0 if progress != "none" else row) + (outcome == "failed")
        record = world.core.state.jobs.records[one.id]
        view = answers.answer_job(world.recover(), AskJob(job_id=one.id), world.now).job
        assert view is not None
        assert (view.failures_in_row, view.retries_used) == (record.failures_in_row, record.retries_used)
        if outcome == "failed" and row > retries:
            assert world.phase(one) is Phase.FAILED
            return
        assert (world.phase(one), record.failures_in_row) == (Phase.PLACED, row)


def derived(*, read_ago_s: float | None) -> VirtualScheduler:
    """A cluster that waits only where pages are read, and where they were, so long ago."""
    world = VirtualScheduler(nodes=2, gpus=2, limits=Limits(blame_s=BLAME_S, blame_unread=False))
    if read_ago_s is not None:
        until = after(world.now, -read_ago_s)
        world.write("telemetry", "job", "an-earlier-one", "use-reported", JobUseReported(use=Use(), until=until))
    return world


@pytest.mark.parametrize(
    ("read_ago_s", "waits"),
    [
        pytest.param(None, False, id="never"),
        pytest.param(60.0, True, id="lately"),
        pytest.param(2 * READ_LATELY_S, False, id="not-any-more"),
    ],
)
@pytest.mark.parametrize("recovered", [False, True])
def test_where_no_page_is_read_nothing_is_waited_for(read_ago_s: float | None, waits: bool, recovered: bool) -> None:
    world = derived(read_ago_s=read_ago_s)
    one = running(world, retries=1)
    if recovered:
        world.core = world.recover()
    world.exited(one, "failed", exit_code=1)
    assert (world.phase(one) is Phase.RUNNING) is waits


def test_hardware_that_is_blamed_already_keeps_nobody_waiting() -> None:
    world = derived(read_ago_s=1.0)
    one = running(world)
    ((node, _),) = world.slots(one)
    ask(world, node, by="health")
    world.exited(one, "failed", exit_code=1)
    assert world.last("queued", one.id).payload.reason is QueuedReason.NODE_LOST


@pytest.mark.parametrize(
    ("said", "blame_s"),
    [
        ({}, 12.0),
        ({"telemetry": {"interval_s": 1}}, 3.0),
        ({"telemetry": {"interval_s": 600}}, 60.0),
        ({"telemetry": {"enabled": False}}, 0.0),
        ({"health": {"enabled": False}}, 0.0),
        ({"scheduler": {"blame_s": 30}, "telemetry": {"enabled": False}}, 30.0),
        ({"scheduler": {"blame_s": 0}}, 0.0),
    ],
)
def test_by_default_one_reading_more_is_waited_for_and_nothing_where_nobody_looks(
    said: dict[str, object], blame_s: float
) -> None:
    whole = Settings.model_validate({"state_dir": Path(), "credentials_dir": Path(), **said})
    assert blame_s_of(whole) == blame_s
