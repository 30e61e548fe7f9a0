"""What is folded of a run beside its phase: checkpoints, slices, grace, sizes, and what is kept for those who wait."""

from kit.scheduler import VirtualScheduler, belief, ledger_balances
from muster.core import NS_PER_S, after
from muster.scheduler.core.stores.jobs import JobRecord, bound_ns
from muster.schemas.facts.job import (
    JobCheckpointed,
    JobReservationLifted,
    JobReserved,
    JobResizeRequested,
    JobStopRequested,
    PodsResized,
    StopReason,
)
from muster.schemas.job import Job, Phase, Slot


def record_of(world: VirtualScheduler, one: Job) -> JobRecord:
    return world.core.state.jobs.records[one.id]


def own(world: VirtualScheduler, one: Job, name: str, payload: object) -> None:
    """The scheduler said so."""
    world.write("scheduler", "job", one.id, name, payload)


def test_a_checkpoint_of_the_present_run_is_remembered_and_one_of_an_earlier_run_is_not() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=1)
    world.started(one)
    world.advance(50)
    world.write("agent", "job", one.id, "checkpointed", JobCheckpointed(attempt=1))
    assert record_of(world, one).checkpointed_at == world.now
    world.exited(one, "failed")
    world.advance(10)
    world.write("agent", "job", one.id, "checkpointed", JobCheckpointed(attempt=1))
    assert record_of(world, one).checkpointed_at == world.now - 10 * NS_PER_S
    assert world.core.state.anomalies["observation of no present run"] == 1


def test_a_preempted_job_waits_again_at_its_old_place_and_knows_that_it_made_way() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=0)
    world.started(one)
    rank = record_of(world, one).rank
    stop = JobStopRequested(attempt=1, reason=StopReason.PREEMPTED, made_way_for="somebody")
    own(world, one, "stop-requested", stop)
    assert record_of(world, one).made_way_for == "somebody"
    world.exited(one, "failed", exit_code=143, ran_s=40.0)
    queued = world.last("queued", one.id).payload
    assert (queued.reason, queued.attempt, queued.detail) == ("preempted", 2, "made way for somebody")
    record = record_of(world, one)
    assert (record.rank, record.preemptions, record.retries_used, record.made_way_for) == (rank, 1, 0, "")
    assert record.ran_s == 40.0, "run time is counted over all runs"


def test_notice_is_given_with_the_jobs_own_grace_when_its_time_is_over_and_with_none_when_it_is_cancelled() -> None:
    world = VirtualScheduler(nodes=1)
    one, two = world.submit("one", total_run_time_s=60.0, grace_s=45.0), world.submit("two", grace_s=45.0)
    world.started(one)
    world.started(two)
    world.advance(60)
    world.cancel(two)
    assert world.last("stop-requested", one.id).payload.grace_s == 45.0
    assert world.last("stop-requested", two.id).payload.grace_s == 0.0


def test_others_may_count_on_a_preemptible_place_after_slice_and_grace() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", min_slice_s=600.0, grace_s=30.0)
    world.advance(100)
    assert bound_ns(record_of(world, one), world.now) == after(world.now, 630), "its slice begins when it runs"
    world.started(one)
    begun = world.now
    world.advance(100)
    assert bound_ns(record_of(world, one), world.now) == after(begun, 630)
    world.advance(900)
    assert bound_ns(record_of(world, one), world.now) == after(world.now, 30)


def test_others_may_count_on_any_place_when_the_total_run_time_is_over() -> None:
    world = VirtualScheduler(nodes=1)
    firm = world.submit("firm", total_run_time_s=900.0, preemptible=False, min_slice_s=10.0, grace_s=0.0)
    short = world.submit("short", total_run_time_s=50.0, min_slice_s=3600.0, grace_s=0.0)
    for one in (firm, short):
        world.started(one)
    assert bound_ns(record_of(world, firm), world.now) == after(world.now, 900)
    assert bound_ns(record_of(world, short), world.now) == after(world.now, 50)


def slot(replica: int, device: int, node: str = "n0") -> Slot:
    return Slot(group=0, replica=replica, node=node, devices=(device,), gpu_milli=1000)


def test_a_job_that_shrinks_holds_all_it_had_until_it_is_done() -> None:
    world = VirtualScheduler(nodes=1, gpus=4)
    one = world.submit("one", replicas=3)
    world.started(one)
    own(world, one, "resize-requested", JobResizeRequested(attempt=1, slots=(slot(0, 0), slot(1, 1)), grace_s=5.0))
    assert record_of(world, one).held_milli == 3_000
    ledger_balances(world.core)
    world.write("agent", "job", one.id, "pods-resized", PodsResized(attempt=1, slots=2))
    world.settle()
    assert world.names(one)[-2:] == ["resize-requested", "resized"]
    assert world.slots(one) == [("n0", (0,)), ("n0", (1,))]
    assert world.core.state.queues.queues["lab"].held_milli == 2_000
    ledger_balances(world.core)


def test_a_job_that_grows_holds_what_it_gets_from_the_moment_it_is_said() -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    one = world.submit("one", replicas=2)
    world.started(one)
    more = (slot(0, 0), slot(1, 1), slot(2, 0, "n1"))
    own(world, one, "resize-requested", JobResizeRequested(attempt=1, slots=more))
    assert world.core.state.queues.queues["lab"].held_milli == 3_000
    ledger_balances(world.core)
    assert belief(world.recover()) == belief(world.core)
    world.exited(one)
    assert world.core.state.queues.queues["lab"].held_milli == 0
    ledger_balances(world.core)


def test_a_resize_of_another_size_or_run_is_counted_and_changes_nothing() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", replicas=2)
    world.started(one)
    own(world, one, "resize-requested", JobResizeRequested(attempt=1, slots=(slot(0, 0),)))
    world.write("agent", "job", one.id, "pods-resized", PodsResized(attempt=1, slots=2))
    world.write("agent", "job", one.id, "pods-resized", PodsResized(attempt=2, slots=1))
    world.settle()
    assert world.names(one)[-1] == "resize-requested"
    assert world.core.state.anomalies["resize of another size"] == 1


def test_what_is_kept_for_a_job_is_known_until_it_is_placed_ends_or_it_is_lifted() -> None:
    world = VirtualScheduler(nodes=0)
    one, two, three = (world.submit(name) for name in ("one", "two", "three"))
    for each in (one, two, three):
        own(world, each, "reserved", JobReserved(attempt=1, slots=(slot(0, 0),), starts_at=world.now))
    assert len(world.core.state.runs.reserved) == 3
    assert belief(world.recover()) == belief(world.core)
    own(world, one, "reservation-lifted", JobReservationLifted(attempt=1))
    world.cancel(two)
    world.join("n0", gpus=3)
    assert world.phase(three) is Phase.PLACED
    assert [record_of(world, each).reserved for each in (one, two, three)] == [None] * 3
    assert not world.core.state.runs.reserved
