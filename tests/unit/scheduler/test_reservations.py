"""Nodes and GPUs kept in advance: for a queue, a job or maintenance, once or weekly, and what is asked of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.scheduler import START, VirtualScheduler, belief, job
from kit.scheduler_runs import RunningScheduler
from muster.core import NS_PER_S
from muster.scheduler.core.answers import answer_reservation_check, answer_reservations
from muster.scheduler.core.stores.reservations import WEEK_NS, Window
from muster.schemas.facts.node import NodeLeft
from muster.schemas.facts.reservation import (
    Booked,
    BookingRefused,
    Repeat,
    ReservationSpec,
    ReserveEndRequested,
    ReserveRequested,
)
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskFleet, AskReservation

WEEK_S = 7 * 86_400.0


def floor(*, nodes: int = 2, gpus: int = 4) -> RunningScheduler:
    return RunningScheduler(nodes=nodes, gpus=gpus, queues=("lab", "other"))


def spec(name: str = "night", *, in_s: float = 1_000.0, for_s: float = 500.0, **rest: object) -> ReservationSpec:
    starts_at = START + round(in_s * NS_PER_S)
    return ReservationSpec(name=name, starts_at=starts_at, duration_s=for_s, **rest)


def reserve(world: VirtualScheduler, request: ReservationSpec) -> object:
    """What the scheduler answers."""
    payload = ReserveRequested(spec=request, principal="root")
    asked = world.write("federation", "reservation", request.name, "reserve-forwarded", payload)
    world.settle()
    return next(fact.payload for fact in reversed(world.log) if asked.id in fact.causes)


def end(world: VirtualScheduler, name: str) -> str:
    payload = ReserveEndRequested(principal="root", reason="not needed")
    asked = world.write("federation", "reservation", name, "end-forwarded", payload)
    world.settle()
    return next(fact.name for fact in reversed(world.log) if asked.id in fact.causes)


def hard(world: RunningScheduler, name: str, *, run_s: float, **rest: object) -> Job:
    return world.come(name, run_s=run_s, total_run_time_s=run_s, preemptible=False, grace_s=0.0, **rest)


def kept_milli(world: VirtualScheduler, name: str = "night") -> int:
    return world.core.state.bookings.all[f"reservation/{name}"].kept_milli


def test_before_it_starts_only_who_is_gone_by_then_is_placed_there() -> None:
    world = floor(nodes=1)
    assert isinstance(reserve(world, spec(nodes=("n0",), queue="other")), Booked)
    long, short = hard(world, "long", run_s=980), hard(world, "short", run_s=900)
    world.advance(1)
    assert world.phase(long) is Phase.QUEUED
    assert world.phase(short) is Phase.RUNNING


def test_while_it_lasts_only_the_jobs_of_its_queue_are_placed_there_and_those_below() -> None:
    world = floor(nodes=1)
    world.queue("below", parent="other")
    reserve(world, spec(nodes=("n0",), queue="other"))
    world.advance(1_001)
    others, mine = hard(world, "others", run_s=10), hard(world, "mine", run_s=10, queue="other")
    below = hard(world, "below", run_s=5_000, queue="below")
    world.advance(1)
    assert [world.phase(one) for one in (others, mine, below)] == [Phase.QUEUED, Phase.RUNNING, Phase.RUNNING]


def test_who_waits_for_a_reservation_is_placed_when_it_starts() -> None:
    world = floor(nodes=1)
    reserve(world, spec(nodes=("n0",), queue="other"))
    mine = hard(world, "mine", run_s=5_000, gpus=4, queue="other")
    world.advance(900)
    assert world.phase(mine) is Phase.QUEUED
    world.advance(101)
    assert world.start_of(mine) == 1_000


def test_those_it_is_for_are_placed_there_first_and_leave_the_rest_to_others() -> None:
    world = floor(nodes=2)
    reserve(world, spec(nodes=("n1",), queue="other", in_s=0.0))
    mine, theirs = hard(world, "mine", run_s=50, gpus=4, queue="other"), hard(world, "theirs", run_s=50, gpus=4)
    world.advance(1)
    assert [world.slots(one)[0][0] for one in (mine, theirs)] == ["n1", "n0"]


def test_for_one_job_it_is_also_if_others_of_its_shape_came_before() -> None:
    world = floor(nodes=1)
    hard(world, "holder", run_s=20, gpus=4)
    world.advance(1)
    before, mine = hard(world, "before", run_s=50), hard(world, "mine", run_s=50)
    reserve(world, spec(nodes=("n0",), job_id=mine.id, in_s=10.0))
    world.advance(30)
    assert (world.start_of(before), world.start_of(mine)) == (None, 20.0)


def test_for_one_job_it_is_for_nobody_else_and_over_with_the_job() -> None:
    world = floor(nodes=1)
    mine = hard(world, "mine", run_s=2_000)
    hard(world, "first", run_s=900, gpus=4)
    reserve(world, spec(nodes=("n0",), job_id=mine.id, for_s=10_000.0))
    other = hard(world, "other", run_s=5_000)
    world.advance(1_100)
    assert world.phase(mine) is Phase.RUNNING
    assert world.phase(other) is Phase.QUEUED
    world.advance(2_000)
    assert world.count("night", "ended") == 1
    assert world.phase(other) is Phase.RUNNING


def test_maintenance_is_for_nobody_until_it_is_over() -> None:
    world = floor(nodes=1)
    reserve(world, spec(nodes=("n0",)))
    one = hard(world, "one", run_s=2_000)
    world.advance(1_499)
    assert world.phase(one) is Phase.QUEUED
    world.advance(2)
    assert world.phase(one) is Phase.RUNNING
    assert world.core.state.reservations.booked == {}


def test_who_is_over_the_slice_makes_way_at_the_start_and_who_is_not_at_the_end_of_it() -> None:
    world = floor(nodes=1)
    over = world.come("over", run_s=9_000, min_slice_s=100.0, grace_s=30.0)
    within = world.come("within", run_s=9_000, min_slice_s=1_200.0)
    stays = hard(world, "stays", run_s=9_000)
    owned = world.come("owned", run_s=9_000, min_slice_s=100.0, queue="other")
    world.advance(1)
    reserve(world, spec(nodes=("n0",), queue="other"))
    world.advance(1_400)
    asked = {fact.subject_id: fact for fact in world.log if fact.name == "stop-requested"}
    assert asked.keys() == {over.id, within.id}
    assert (asked[over.id].time - START) / NS_PER_S == 970
    assert asked[over.id].payload.made_way_for == "reservation/night"
    assert (asked[within.id].time - START) / NS_PER_S == 1_200
    assert world.phase(stays) is world.phase(owned) is Phase.RUNNING


def test_a_weekly_one_comes_back_until_it_is_ended() -> None:
    world = floor(nodes=1)
    reserve(world, spec(nodes=("n0",), repeat=Repeat.WEEKLY))
    world.advance(1_501)
    assert world.core.state.reservations.booked["night"].starts_at == START + 1_000 * NS_PER_S + WEEK_NS
    one = hard(world, "one", run_s=8 * 86_400)
    world.advance(10)
    assert world.phase(one) is Phase.QUEUED
    assert end(world, "night") == "ended"
    world.advance(1)
    assert world.phase(one) is Phase.RUNNING


def test_gpus_are_chosen_where_they_are_free_by_then_and_chosen_anew_when_a_node_goes() -> None:
    world = floor(nodes=3)
    for index in range(2):
        hard(world, f"long{index}", run_s=50_000, gpus=3)
    world.advance(1)
    busy = {node for index in range(2) for node, _ in world.slots(world.works[next(iter(world.works))].job)}
    answer = reserve(world, spec(gpus=4, queue="other"))
    assert isinstance(answer, Booked)
    (slot,) = answer.slots
    assert slot.node not in busy
    assert slot.devices == (0, 1, 2, 3)
    assert kept_milli(world) == 4_000
    world.write("agent", "node", slot.node, "left", NodeLeft())
    world.settle()
    assert slot.node not in {slot.node for slot in world.core.state.reservations.booked["night"].slots}


def test_one_of_the_same_name_is_replaced_and_no_two_get_the_same_gpus() -> None:
    world = floor(nodes=2)
    first = reserve(world, spec("a", gpus=4))
    second = reserve(world, spec("b", gpus=4))
    assert {slot.node for slot in first.slots}.isdisjoint(slot.node for slot in second.slots)
    assert isinstance(reserve(world, spec("c", gpus=1)), BookingRefused)
    assert isinstance(reserve(world, spec("c", gpus=1, in_s=1_500)), Booked)
    assert isinstance(reserve(world, spec("a", nodes=("n0", "n1"), in_s=5_000)), Booked)
    assert isinstance(reserve(world, spec("d", gpus=4)), Booked)


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        (spec(nodes=("n0", "n7")), "nodes"),
        (spec(nodes=("n0",), in_s=-600), "starts_at"),
        (spec(gpus=9), "gpus"),
        (spec(gpus=1, gpu_model="A100"), "gpus"),
        (spec(nodes=("n0",), queue="nobody"), "queue"),
        (spec(nodes=("n0",), job_id="A" * 26), "job_id"),
        (spec("later", nodes=("n1",), in_s=3_400, for_s=200), "nodes"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_field(wish: ReservationSpec, field: str) -> None:
    world = floor()
    reserve(world, spec("first", nodes=("n1",), in_s=3_000))
    check = answer_reservation_check(world.core, AskReservation(spec=wish), world.now)
    answer = reserve(world, wish)
    assert isinstance(answer, BookingRefused)
    assert answer.field == check.field == field
    assert answer.reason == check.reason != ""


def test_the_end_of_what_is_not_there_is_refused() -> None:
    assert end(floor(), "nothing") == "booking-refused"


def test_all_are_listed_with_what_is_kept_already() -> None:
    world = floor(nodes=1)
    hard(world, "one", run_s=5_000)
    world.advance(1)
    reserve(world, spec(nodes=("n0",)))
    world.advance(1_100)
    (view,) = answer_reservations(world.core, AskFleet(), world.now).reservations
    assert (view.name, view.active, view.held_gpu_milli) == ("night", True, 3_000)
    assert answer_reservation_check(world.core, AskReservation(spec=spec(gpus=1, in_s=9_000)), world.now).field == ""


def test_a_checkpoint_keeps_reservations_and_wishes() -> None:
    world = floor(nodes=2)
    reserve(world, spec("a", gpus=3, queue="lab"))
    reserve(world, spec("b", nodes=("n1",), repeat=Repeat.WEEKLY, in_s=2_000))
    payload = ReserveRequested(spec=spec("c", gpus=1), principal="root")
    world.write("federation", "reservation", "c", "reserve-forwarded", payload)
    for kinds in (None, ("reservation", "job", "agent", "device", "node", "queue", "cluster")):
        other = world.recover(kinds) if kinds else world.recover()
        assert belief(other) == belief(world.core)
        assert other.state.reservations.booked == world.core.state.reservations.booked
        assert other.state.reservations.wishes == world.core.state.reservations.wishes
        assert other.decide(world.now) == world.core.decide(world.now)


def test_who_starves_is_planned_for_around_what_is_reserved() -> None:
    world = floor(nodes=1)
    world.queue("lab", starving_after_s=10.0)
    world.route(job("tiny", gpus=1, queue="nowhere"))
    hard(world, "holder", run_s=900, gpus=4)
    reserve(world, spec(nodes=("n0",), in_s=1_000, for_s=500))
    before = hard(world, "before", run_s=50, gpus=4)
    after = hard(world, "after", run_s=200, gpus=4)
    world.advance(100)
    records = world.core.state.jobs.records
    assert (records[before.id].reserved.starts_at - START) / NS_PER_S == 900
    assert (records[after.id].reserved.starts_at - START) / NS_PER_S == 1_500
    world.advance(2_000)
    assert world.start_of(before) == 900
    assert world.start_of(after) == 1_500


TIMES = st.builds(
    lambda starts, part, *, weekly: Window(starts, max(1, part), weekly),
    st.integers(0, 3 * WEEK_NS),
    st.integers(1, WEEK_NS - 1),
    weekly=st.booleans(),
)


@given(TIMES, TIMES)
def test_windows_meet_if_two_of_their_times_overlap(one: Window, other: Window) -> None:
    def times(window: Window) -> list[tuple[int, int]]:
        starts = [window.starts_at + week * WEEK_NS for week in range(5 if window.weekly else 1)]
        return [(start, start + window.duration) for start in starts]

    overlap = any(a < d and c < b for a, b in times(one) for c, d in times(other))
    assert one.meets(other) == other.meets(one) == overlap
