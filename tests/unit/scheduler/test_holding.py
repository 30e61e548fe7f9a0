"""Held, released, and another priority: who stands where in line, who is passed over, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.scheduler import VirtualScheduler, belief, job
from kit.scheduler_yard import HOUR_S, Yard, floor, hard
from muster.scheduler.core.answers import answer_dry_run, answer_job, answer_why
from muster.schemas.facts.job import PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.job_requests import Ask
from muster.schemas.facts.queue import QueueOrder
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskDryRun, AskJob, WhyAnswer


def full(*, gpus: int = 1, **queue: object) -> tuple[VirtualScheduler, Job]:
    """A cluster whose one job holds everything."""
    world = VirtualScheduler(nodes=1, gpus=gpus)
    if queue:
        world.queue("lab", **queue)
    return world, world.submit("runs", gpus=gpus)


def in_line(world: VirtualScheduler) -> list[str]:
    """Names of those that stand in line, in the order in which they come."""
    entries = sorted(entry for lane in world.core.state.pending.queues.values() for entry in lane.jobs)
    return [world.core.state.jobs.records[job_id].job.spec.name for _, job_id in entries]


def why(world: VirtualScheduler, one: Job) -> WhyAnswer:
    return answer_why(world.core, AskJob(job_id=one.id), world.now)


# --- hold ----------------------------------------------------------------------------------------------------


def test_a_held_job_is_passed_over_by_those_behind_it() -> None:
    world, runs = full()
    first, second = world.submit("first"), world.submit("second")
    world.hold(first)
    world.exited(runs)
    assert (world.phase(first), world.phase(second)) == (Phase.QUEUED, Phase.PLACED)


def test_a_job_that_is_held_as_its_place_comes_free_is_not_placed() -> None:
    world, runs = full()
    first = world.submit("first")
    world.ask(first, Ask.HOLD)
    world.exited(runs)
    assert world.names(first)[-1] == "held"


def test_a_job_that_is_held_before_it_was_queued_is_queued_and_held() -> None:
    world = VirtualScheduler(nodes=1)
    one = job("one")
    world.route(one)
    world.ask(one, Ask.HOLD)
    world.settle()
    assert world.names(one) == ["queued", "held"]


def test_the_answers_say_who_asked_why_and_what_led_to_them() -> None:
    world, _ = full()
    one = world.submit("one")
    asked = world.ask(one, Ask.HOLD, reason="wrong data")
    world.settle()
    held = world.last("held", one.id)
    assert (held.payload.principal, held.payload.reason, held.causes) == ("ada", "wrong data", (asked.id,))
    assert held.trace == one.trace


def test_a_held_job_shows_so_and_why_says_by_whom() -> None:
    world, _ = full()
    one = world.submit("one")
    world.submit("other")
    world.hold(one, reason="wrong data")
    view = answer_job(world.core, AskJob(job_id=one.id), world.now).job
    assert (view.held, view.phase, view.reason, view.detail) == (True, Phase.QUEUED, "held", "by ada: wrong data")
    answer = why(world, one)
    assert answer.reason == "held"
    assert answer.detail == "by ada: wrong data; released, it would be number 1 of 2 in line"
    assert (answer.position, answer.waiting) == (0, 1), "it is in no line"
    assert "release the job" in answer.cure
    assert answer.expected_start_at == 0, "nobody knows when it is released"


def test_nothing_is_told_to_a_held_job_about_room() -> None:
    world, _ = full()
    one = world.submit("one")
    world.hold(one)
    told = world.count(one.id, "unschedulable")
    world.submit("other")
    world.advance(60)
    assert world.count(one.id, "unschedulable") == told


def test_a_held_job_stands_in_nobody_s_way_when_starts_are_foreseen() -> None:
    world, _ = full(gpus=2)
    ahead = world.submit("ahead", gpus=2)
    asked = AskDryRun(spec=job("new", gpus=2).spec)
    before = answer_dry_run(world.core, asked, world.now)
    world.hold(ahead)
    after = answer_dry_run(world.core, asked, world.now)
    assert (before.position, after.position) == (2, 1)
    assert after.expected_start_at < before.expected_start_at


def test_a_held_job_loses_what_was_reserved_for_it_and_keeps_its_age() -> None:
    world = floor()
    hard(world, "long", gpus=3, run_s=1_000)
    world.advance(1)
    large = hard(world, "large", gpus=4, run_s=10)
    world.advance(200)
    record = world.core.state.jobs.records[large.id]
    assert record.reserved is not None, "it starves"
    queued_at = record.queued_at
    world.hold(large)
    assert (record.reserved, record.queued_at) == (None, queued_at)
    assert large.id not in world.core.state.bookings.all
    world.advance(200)
    assert record.reserved is None, "nothing is kept for it while it is held"
    world.release(large)
    world.advance(200)
    assert record.reserved is not None, "it is as old as it was"
    assert belief(world.recover()) == belief(world.core)


def test_a_job_that_is_held_as_all_that_is_reserved_for_it_comes_free_is_not_placed() -> None:
    world = floor()
    long = hard(world, "long", gpus=3, run_s=1_000)
    world.advance(1)
    large = hard(world, "large", gpus=4, run_s=10)
    world.advance(200)
    assert world.core.state.jobs.records[large.id].reserved is not None
    payload = PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED)
    world.write("agent", "job", long.id, "pods-exited", payload)
    world.decide_once("scheduler")
    world.ask(large, Ask.HOLD)
    world.settle()
    assert world.names(large)[-1] == "held"


@pytest.mark.parametrize("phase", [Phase.PLACED, Phase.RUNNING, Phase.STOPPING])
def test_a_job_that_has_its_places_is_not_held(phase: Phase) -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    if phase is not Phase.PLACED:
        world.started(one)
    if phase is Phase.STOPPING:
        world.cancel(one)
    assert world.phase(one) is phase
    world.hold(one)
    refused = world.last("hold-refused", one.id).payload
    assert (refused.principal, world.phase(one)) == ("ada", phase)
    assert refused.reason.endswith("only a job that waits can be held")


def test_a_hold_that_comes_too_late_is_refused_when_the_job_was_placed_meanwhile() -> None:
    world = VirtualScheduler(nodes=1)
    one = job("one")
    world.route(one)
    drafts = world.core.decide(world.now)
    world.ask(one, Ask.HOLD)
    for draft in drafts:
        world.append("scheduler", draft)
    world.settle()
    assert world.names(one) == ["queued", "placed", "hold-refused"]


def test_a_held_job_that_is_cancelled_ends() -> None:
    world, _ = full()
    one = world.submit("one")
    world.hold(one)
    world.cancel(one)
    assert world.names(one)[-1] == "cancelled"
    assert not answer_job(world.core, AskJob(job_id=one.id), world.now).job.held


def test_who_asks_twice_gets_two_answers_and_one_hold() -> None:
    world, _ = full()
    one = world.submit("one")
    world.hold(one, reason="first")
    world.hold(one, reason="second")
    assert world.count(one.id, "held") == 2
    assert world.core.state.jobs.records[one.id].held.reason == "second"
    world.release(one)
    assert in_line(world) == ["one"]


# --- release -------------------------------------------------------------------------------------------------


def test_a_released_job_stands_where_it_stood() -> None:
    world, _ = full()
    jobs = [world.submit(name) for name in ("first", "second", "third")]
    world.hold(jobs[1])
    assert in_line(world) == ["first", "third"]
    world.release(jobs[1])
    assert in_line(world) == ["first", "second", "third"]


def test_a_released_job_is_placed_at_once_if_there_is_room() -> None:
    world, runs = full()
    one = world.submit("one")
    world.hold(one)
    world.exited(runs)
    world.release(one)
    assert world.names(one)[-2:] == ["unheld", "placed"]


def test_a_released_job_is_told_again_why_it_waits() -> None:
    world, _ = full()
    jobs = [world.submit("one"), world.submit("behind")]
    told = [world.last("unschedulable", one.id).payload for one in jobs]
    for one in jobs:
        world.hold(one)
        world.release(one)
        assert world.core.state.jobs.records[one.id].reason == "released"
    world.advance(10)
    assert [world.last("unschedulable", one.id).payload for one in jobs] == told
    assert {world.core.state.jobs.records[one.id].reason for one in jobs} == {"gpu"}


def test_a_job_that_nobody_holds_is_not_released() -> None:
    world, _ = full()
    one = world.submit("one")
    world.release(one)
    assert world.last("release-refused", one.id).payload.reason == "it is not held"
    assert in_line(world) == ["one"]


def test_the_newest_wish_counts_also_when_the_answer_to_the_one_before_is_on_its_way() -> None:
    world, _ = full()
    one = world.submit("one")
    world.ask(one, Ask.HOLD)
    drafts = world.core.decide(world.now)
    world.ask(one, Ask.RELEASE)
    for draft in drafts:
        world.append("scheduler", draft)
    world.settle()
    assert world.names(one)[-2:] == ["held", "unheld"]
    assert in_line(world) == ["one"]


# --- priority ------------------------------------------------------------------------------------------------


def test_a_higher_priority_brings_a_waiting_job_forward_at_once() -> None:
    world, runs = full()
    first, second = world.submit("first"), world.submit("second")
    world.prioritise(second, 90)
    assert in_line(world) == ["second", "first"]
    fact = world.last("reprioritised", second.id).payload
    assert (fact.priority, fact.was, fact.principal) == (90, 50, "ada")
    world.exited(runs)
    assert (world.phase(first), world.phase(second)) == (Phase.QUEUED, Phase.PLACED)


def test_its_place_is_the_one_that_it_would_have_had_from_the_beginning() -> None:
    world, _ = full()
    changed, same = world.submit("changed", priority=10), world.submit("same", priority=70)
    world.prioritise(changed, 70)
    records = world.core.state.jobs.records
    assert records[changed.id].rank == records[same.id].rank


def test_the_old_priority_again_is_the_old_place_again() -> None:
    world, _ = full()
    one = world.submit("one")
    before = world.core.state.jobs.records[one.id].rank
    world.prioritise(one, 900)
    world.prioritise(one, 50)
    assert world.core.state.jobs.records[one.id].rank == before


def test_in_a_queue_that_goes_by_arrival_alone_the_line_stays() -> None:
    world, _ = full(order=QueueOrder.FIFO)
    world.submit("first")
    world.prioritise(world.submit("second"), 90)
    assert in_line(world) == ["first", "second"]


def test_a_held_job_moves_in_line_and_stays_held() -> None:
    world, _ = full()
    _, second = world.submit("first"), world.submit("second")
    world.hold(second)
    world.prioritise(second, 90)
    assert in_line(world) == ["first"]
    world.release(second)
    assert in_line(world) == ["second", "first"]


def test_a_running_job_of_lower_priority_than_it_had_makes_way() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    runs = yard.runs("runs", queue="a", priority=50)
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", priority=50)
    assert yard.told() == {}
    yard.prioritise(runs, 10)
    assert yard.told() == {"runs": "mine"}
    yard.obey()
    assert yard.phase(mine) is Phase.PLACED


def test_a_running_job_of_higher_priority_than_it_had_is_left_alone() -> None:
    yard = Yard(gpus=2, quotas={"a": 2})
    one, two = yard.runs("one", queue="a", priority=10), yard.runs("two", queue="a", priority=20)
    yard.advance(HOUR_S)
    yard.prioritise(one, 90)
    yard.waits("mine", queue="a", priority=50)
    assert yard.told() == {"two": "mine"}
    assert yard.phase(one) is Phase.RUNNING
    assert yard.phase(two) is Phase.STOPPING


def test_a_waiting_job_of_higher_priority_than_it_had_has_others_make_way() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    yard.runs("runs", queue="a", priority=50)
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", priority=50)
    yard.prioritise(mine, 51)
    assert yard.told() == {"runs": "mine"}


def test_a_job_that_is_being_cancelled_gets_no_other_priority() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    world.cancel(one)
    world.prioritise(one, 90)
    assert world.last("priority-refused", one.id).payload.reason == "it is being ended for good"


def test_what_is_asked_of_a_job_that_ended_is_counted_and_changes_nothing() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.exited(one)
    before = world.names(one)
    for ask in Ask:
        world.ask(one, ask)
    world.settle()
    assert world.names(one) == before
    assert all(world.core.state.anomalies[f"{ask.value}-forwarded of no live job"] == 1 for ask in Ask)


def test_a_job_is_asked_for_more_than_one_thing_at_a_time() -> None:
    world, _ = full()
    one = world.submit("one")
    for ask in (Ask.HOLD, Ask.PRIORITY):
        world.ask(one, ask, priority=90)
    world.settle()
    assert set(world.names(one)[-2:]) == {"held", "reprioritised"}
    assert world.core.state.jobs.records[one.id].wishes == ()


def test_the_end_of_a_run_answers_before_what_was_asked_of_it() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    one = world.submit("one", retries=1)
    world.write("agent", "job", one.id, "pods-started", PodsStarted(attempt=1))
    world.ask(one, Ask.HOLD)
    world.exited(one, "failed", attempt=1)
    assert world.names(one)[-2:] == ["queued", "held"], "it waits again, so it can be held"


# --- always --------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from((10, 50, 90))), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(("hold", "release", "up", "back")), st.integers(0, 7)), max_size=20),
)
def test_when_all_are_released_and_have_their_old_priority_the_line_is_what_it_was(
    shapes: list[tuple[int, int]], asked: list[tuple[str, int]]
) -> None:
    world, _ = full(gpus=2)
    jobs = [world.submit(f"j{index}", gpus=gpus, priority=priority) for index, (gpus, priority) in enumerate(shapes)]
    before, names = in_line(world), {one.id: one.spec.name for one in jobs}
    held = set[str]()
    for ask, index in asked:
        one = jobs[index % len(jobs)]
        match ask:
            case "hold":
                world.hold(one)
                held.add(one.id)
            case "release":
                world.release(one)
                held.discard(one.id)
            case _:
                world.prioritise(one, 1000 if ask == "up" else one.spec.priority)
        assert set(in_line(world)) == {name for job_id, name in names.items() if job_id not in held}
        assert belief(world.refold()) == belief(world.recover()) == belief(world.core)
    for one in jobs:
        world.prioritise(one, one.spec.priority)
        world.release(one)
    assert in_line(world) == before
