"""What services want free from a moment on: who may still start there, what is answered when, and what people hear."""

from kit.closing import FINISH, MOVE, ask, withdraw
from kit.scheduler import VirtualScheduler, job, ledger_balances
from muster.core import NS_PER_S
from muster.scheduler.core import answers
from muster.scheduler.core.explain.summary import summarise
from muster.schemas.job import Checkpointing, Phase
from muster.schemas.queries import AskDryRun, AskJob

HOUR = 3_600.0
LONG, SHORT = 6 * HOUR, HOUR / 2
MOVABLE = {"checkpointing": Checkpointing(interval_s=600), "min_slice_s": SHORT, "total_run_time_s": LONG}


def test_only_jobs_that_end_before_start_on_a_node_that_is_to_be_free_later() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR)
    world.settle()
    short = world.submit("short", total_run_time_s=SHORT)
    long = world.submit("long", total_run_time_s=LONG)
    assert world.slots(short) == [("n0", (0,))]
    assert world.phase(long) is Phase.QUEUED
    assert world.count("n0", "withheld") == 0


def test_a_job_without_gpus_starts_where_all_gpus_are_held_and_the_rest_is_to_be_free_later() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    world.submit("held", total_run_time_s=LONG)
    ask(world, "n0", in_s=HOUR)
    world.settle()
    assert world.phase(world.submit("no-gpu-is-idle", total_run_time_s=SHORT)) is Phase.QUEUED
    assert world.phase(world.submit("without-gpus", gpus=0, total_run_time_s=SHORT)) is Phase.PLACED


def test_a_slice_is_enough_only_where_jobs_are_moved_and_for_one_that_allows_it() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR, running=MOVE)
    world.settle()
    moves = world.submit("moves", **MOVABLE)
    loses = world.submit("loses", min_slice_s=SHORT, total_run_time_s=LONG)
    stays = world.submit("stays", **MOVABLE, preemptible=False)
    assert [world.phase(one) for one in (moves, loses, stays)] == [Phase.PLACED, Phase.QUEUED, Phase.QUEUED]


def test_where_jobs_finish_a_slice_is_not_enough() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR, running=FINISH)
    world.settle()
    assert world.phase(world.submit("one", **MOVABLE)) is Phase.QUEUED


def test_what_may_open_one_request_may_not_pass_a_later_stricter_one_on_the_same_node() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR, running=MOVE, request="r1")
    ask(world, "n0", in_s=2 * HOUR, running=FINISH, request="r2")
    world.settle()
    assert world.phase(world.submit("one", **MOVABLE)) is Phase.QUEUED


def test_who_may_pass_neither_of_two_requests_is_told_of_maintenance_and_not_that_gpus_lack() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR, running=MOVE, request="r1")
    ask(world, "n0", in_s=2 * HOUR, running=FINISH, request="r2")
    world.settle()
    one = world.submit("one", **MOVABLE)
    why = answers.answer_why(world.core, AskJob(job_id=one.id), world.now)
    assert why.reason == "maintenance"
    assert "1 node has to be free before the job would be gone" in why.detail


def test_a_job_that_is_gone_before_both_requests_on_a_node_starts_there() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR, running=MOVE, request="r1")
    ask(world, "n0", in_s=12 * HOUR, running=FINISH, request="r2")
    world.settle()
    assert world.phase(world.submit("one", **MOVABLE)) is Phase.PLACED


def test_what_is_to_be_free_later_is_free_in_the_clusters_summary_and_what_is_closed_is_not() -> None:
    world = VirtualScheduler(nodes=3, gpus=2)
    ask(world, "n0", in_s=HOUR)
    ask(world, "n1")
    world.settle()
    assert summarise(world.core.state).gpu_milli_free == 4000


def test_the_time_that_a_job_ran_before_counts() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", total_run_time_s=LONG)
    world.started(one)
    ask(world, "n0", in_s=HOUR)
    world.exited(one, "node-lost", ran_s=LONG - SHORT)
    assert (world.phase(one), world.core.state.jobs.records[one.id].attempt) == (Phase.PLACED, 2)


def test_the_request_is_answered_at_its_moment_once_nothing_is_held() -> None:
    world = VirtualScheduler(nodes=2, gpus=1)
    first, second = world.submit("first", total_run_time_s=LONG), world.submit("second", total_run_time_s=LONG)
    for name in ("n0", "n1"):
        ask(world, name, in_s=HOUR)
    world.settle()
    (idle,) = [node for node, _ in world.slots(first)]
    (busy,) = [node for node, _ in world.slots(second)]
    world.exited(first)
    world.advance(HOUR - 1)
    assert world.count(idle, "withheld") == 0
    world.advance(2)
    assert (world.count(idle, "withheld"), world.count(busy, "withheld")) == (1, 0)
    world.exited(second)
    assert world.count(busy, "withheld") == 1
    assert world.phase(world.submit("late", total_run_time_s=60)) is Phase.QUEUED


def test_a_request_for_a_moment_that_has_come_is_one_for_now() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=-HOUR)
    world.settle()
    assert world.count("n0", "withheld") == 1


def test_the_same_request_again_changes_its_moment_and_what_becomes_of_jobs() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR)
    world.settle()
    ask(world, "n0", in_s=10 * HOUR)
    world.settle()
    one = world.submit("one", total_run_time_s=LONG)
    assert world.phase(one) is Phase.PLACED
    ask(world, "n0", in_s=0)
    world.settle()
    assert world.phase(world.submit("two", total_run_time_s=60)) is Phase.QUEUED
    world.exited(one)
    assert world.count("n0", "withheld") == 1
    ask(world, "n0", in_s=HOUR)
    world.settle()
    assert world.core.state.anomalies["withhold requested twice"] == 1


def test_a_request_that_is_withdrawn_before_its_moment_leaves_no_trace() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=HOUR)
    world.settle()
    one = world.submit("one", total_run_time_s=LONG)
    withdraw(world, "n0")
    assert world.phase(one) is Phase.PLACED
    world.advance(2 * HOUR)
    assert (world.count("n0", "withheld"), world.count("n0", "released")) == (0, 1)


def test_a_device_that_is_to_be_free_later_takes_short_jobs_and_its_node_any() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    ask(world, "n0-gpu-0", kind="device", in_s=HOUR)
    world.settle()
    assert world.slots(world.submit("long", total_run_time_s=LONG)) == [("n0", (1,))]
    assert world.phase(world.submit("too-long", total_run_time_s=LONG)) is Phase.QUEUED
    assert world.slots(world.submit("short", total_run_time_s=SHORT)) == [("n0", (0,))]


def test_a_gang_goes_where_all_of_it_may_stay() -> None:
    world = VirtualScheduler(nodes=3, gpus=1)
    ask(world, "n1", in_s=HOUR)
    world.settle()
    gang = world.submit("gang", replicas=2, total_run_time_s=LONG)
    assert {node for node, _ in world.slots(gang)} == {"n0", "n2"}


def test_why_and_the_dry_run_know_of_it() -> None:
    world = VirtualScheduler(nodes=1)
    ask(world, "n0", in_s=2 * HOUR)
    world.settle()
    one = world.submit("one", total_run_time_s=LONG)
    why = answers.answer_why(world.core, AskJob(job_id=one.id), world.now)
    assert why.reason == "maintenance"
    assert "1 node has to be free before the job would be gone, the last in 2.0 h: driver" in why.detail
    assert why.expected_start_at == 0
    for spec, is_placed in ((job("short", total_run_time_s=SHORT).spec, True), (one.spec, False)):
        said = answers.answer_dry_run(world.core, AskDryRun(spec=spec), world.now)
        assert said.placed is is_placed


def test_the_expected_start_counts_on_a_node_only_for_who_is_gone_in_time() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    running = world.submit("running", total_run_time_s=HOUR, preemptible=False)
    world.started(running)
    ask(world, "n0", in_s=2 * HOUR)
    world.settle()
    short = world.submit("short", total_run_time_s=SHORT, preemptible=False)
    long = world.submit("long", total_run_time_s=LONG, preemptible=False)
    expected = [
        answers.answer_why(world.core, AskJob(job_id=one.id), world.now).expected_start_at for one in (short, long)
    ]
    assert world.now + HOUR * NS_PER_S <= expected[0] < world.now + (HOUR + 120) * NS_PER_S
    assert expected[1] == 0


def test_a_reservation_of_a_job_that_would_stay_too_long_is_planned_anew() -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    world.queue("lab", starving_after_s=1)
    for name in ("a", "b"):
        world.started(world.submit(name, gpus=1, total_run_time_s=HOUR, preemptible=False))
    big = world.submit("big", gpus=2, replicas=2, total_run_time_s=LONG, preemptible=False)
    one = world.submit("small", gpus=2, total_run_time_s=LONG, preemptible=False)
    world.advance(5)
    del one
    reserved = world.core.state.jobs.records[big.id].reserved
    assert reserved is not None
    ask(world, "n0", in_s=2 * HOUR)
    world.settle()
    assert world.core.state.jobs.records[big.id].reserved is None
    ledger_balances(world.core)


def test_cores_that_fold_the_log_or_a_checkpoint_believe_the_same() -> None:
    world = VirtualScheduler(nodes=2)
    ask(world, "n0", in_s=HOUR, running=MOVE)
    ask(world, "n1-gpu-3", kind="device", in_s=HOUR)
    world.settle()
    world.submit("one", total_run_time_s=LONG)
    for core in (world.refold(), world.recover(), world.recover(("node", "device", "job", "agent", "queue"))):
        core.state.proposals.settle()
        kept = {key: b.kept for key, b in core.state.bookings.withholds.items()}
        world.core.state.proposals.settle()
        assert kept == {key: b.kept for key, b in world.core.state.bookings.withholds.items()}
        assert len(kept) == 2


def test_a_reservation_stands_when_another_device_of_its_node_is_wanted_free_later() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    holds, others = world.submit("holds", **MOVABLE), world.submit("others", **MOVABLE)
    for one in (holds, others):
        world.started(one)
    waits = world.submit("waits", total_run_time_s=8 * HOUR, preemptible=False)
    world.submit("small", gpu_milli=500, total_run_time_s=8 * HOUR, preemptible=False)
    world.advance(HOUR / 2 + 5)  # then it starves
    before = world.names(waits).count("reserved")
    (slot,) = world.last("reserved", waits.id).payload.slots
    ask(world, f"n0-gpu-{1 - slot.devices[0]}", kind="device", in_s=2 * HOUR, running=FINISH)
    world.settle()
    assert (before, world.names(waits).count("reserved")) == (1, 1)
