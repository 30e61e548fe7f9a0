"""Who starves gets a moment and a place, keeps both, and is not delayed by those who use the place before."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scheduler import START, VirtualScheduler, belief
from kit.scheduler_runs import RunningScheduler
from kit.scheduler_yard import floor, hard
from muster.core import NS_PER_S
from muster.schemas.facts.job import JobReserved
from muster.schemas.job import Job, Phase


def reserved(world: VirtualScheduler, one: Job) -> JobReserved | None:
    return world.core.state.jobs.records[one.id].reserved


def at_s(world: VirtualScheduler, one: Job) -> float:
    payload = reserved(world, one)
    assert payload is not None
    return (payload.starts_at - START) / NS_PER_S


def test_who_starves_is_reserved_for_at_the_bound_of_those_in_its_way() -> None:
    world = floor()
    hard(world, "long", gpus=3, run_s=500, bound_s=1_000)
    world.advance(1)
    big = hard(world, "big", gpus=4, run_s=10)
    world.advance(50)
    assert reserved(world, big) is None
    world.advance(100)
    assert at_s(world, big) == 1_000
    world.advance(400)
    assert world.start_of(big) == 500  # its place came free earlier than promised


def test_an_endless_stream_of_small_jobs_does_not_starve_a_large_one() -> None:
    world = floor(gpus=4)
    big = None
    for index in range(60):
        for part in range(4):
            hard(world, f"s{index}-{part}", gpus=1, run_s=30 + 5 * part)
        if index == 2:
            big = hard(world, "big", gpus=4, run_s=50)
        world.advance(10)
        if big is not None and world.start_of(big) is not None:
            break
    assert big is not None
    promised = next(fact for fact in world.log if fact.subject_id == big.id and fact.name == "reserved")
    assert world.start_of(big) is not None
    assert START + world.start_of(big) * NS_PER_S <= promised.payload.starts_at


def test_a_gang_of_64_gpus_starts_by_its_reservation_amid_an_endless_stream() -> None:
    """Every GPU is wanted by somebody small all the time, and yet the places are gathered for the gang."""
    world = floor(nodes=8, gpus=8, starving_after_s=100.0)
    rng = random.Random(7)
    gang: Job | None = None
    for index in range(90):
        for part in range(12):
            run_s = rng.randint(20, 120)
            world.come(
                f"s{index}-{part}",
                gpus=rng.choice((1, 1, 2, 4)),
                run_s=run_s,
                total_run_time_s=run_s + rng.randint(0, 60),
            )
        if index == 5:
            gang = world.come("gang", gpus=8, replicas=8, run_s=50)
        world.advance(10)
        if gang is not None and world.start_of(gang) is not None:
            break
    assert gang is not None
    promises = [fact.payload.starts_at for fact in world.log if fact.subject_id == gang.id and fact.name == "reserved"]
    assert promises
    assert START + (world.start_of(gang) or 0) * NS_PER_S <= promises[0]


def test_short_jobs_use_what_is_reserved_until_then_and_long_ones_do_not() -> None:
    world = floor()
    hard(world, "holder", gpus=3, run_s=1_000)
    world.advance(1)
    big = hard(world, "big", gpus=4, run_s=10)
    world.advance(200)
    assert at_s(world, big) == 1_000
    long = hard(world, "long", gpus=1, run_s=900)
    short = hard(world, "short", gpus=1, run_s=500)
    world.advance(1)
    assert world.phase(long) is Phase.QUEUED
    assert world.phase(short) is Phase.RUNNING
    world.advance(1_000)
    assert world.start_of(big) == 1_000
    assert world.start_of(long) == 1_010


def test_a_slice_bounds_what_may_be_preempted() -> None:
    world = floor()
    hard(world, "holder", gpus=3, run_s=1_000)
    world.advance(1)
    big = hard(world, "big", gpus=4, run_s=10)
    world.advance(200)
    guest = world.come("guest", gpus=1, run_s=5_000, min_slice_s=600.0, grace_s=20.0)
    world.advance(1)
    assert world.phase(guest) is Phase.RUNNING
    world.advance(1_000)
    assert world.start_of(big) is not None
    assert world.start_of(big) <= 1_000
    stop = world.last("stop-requested", guest.id)
    assert stop.payload.made_way_for == big.id
    assert (stop.time - START) / NS_PER_S == 980


def test_the_reservation_of_a_node_that_goes_is_planned_anew() -> None:
    world = floor(nodes=2)
    hard(world, "one", gpus=4, run_s=1_000)
    hard(world, "two", gpus=4, run_s=2_000)
    world.advance(1)
    big = hard(world, "big", gpus=4, run_s=10)
    world.advance(200)
    assert at_s(world, big) == 1_000
    first = reserved(world, big).slots[0].node
    world.lose(first)
    world.advance(1)
    assert at_s(world, big) == 2_000


def test_a_reservation_is_lifted_when_it_fits_nowhere_any_more() -> None:
    world = floor()
    hard(world, "one", gpus=4, run_s=1_000)
    world.advance(1)
    big = hard(world, "big", gpus=4, run_s=10)
    world.advance(200)
    world.lose("n0")
    world.advance(1)
    assert reserved(world, big) is None
    assert world.count(big.id, "reservation-lifted") == 1


def test_a_checkpoint_keeps_what_is_reserved() -> None:
    world = floor()
    hard(world, "one", gpus=3, run_s=1_000)
    world.advance(1)
    big = hard(world, "big", gpus=4, run_s=10)
    world.advance(200)
    for other in (world.recover(), world.refold()):
        assert belief(other) == belief(world.core)
        booking = other.state.bookings.all[big.id]
        assert booking.kept == world.core.state.bookings.all[big.id].kept
        assert booking.kept_milli == 1_000


def test_reserved_jobs_are_planned_around_each_other() -> None:
    world = floor()
    hard(world, "holder", gpus=4, run_s=1_000)
    world.advance(1)
    jobs = [hard(world, f"big{index}", gpus=3, run_s=100) for index in range(3)]
    world.advance(300)
    first = at_s(world, jobs[0])
    assert first == 1_000
    assert at_s(world, jobs[1]) >= first + 100
    assert at_s(world, jobs[2]) >= at_s(world, jobs[1]) + 100
    world.advance(2_000)
    assert [world.phase(one) for one in jobs] == [Phase.SUCCEEDED] * 3


def test_nobody_is_reserved_for_while_all_ask_for_the_same() -> None:
    """What comes free fits whose turn it is."""
    world = RunningScheduler(nodes=1, gpus=4)
    world.queue("lab", starving_after_s=10.0)
    for index in range(8):
        hard(world, f"j{index}", gpus=2, run_s=100)
    world.advance(1_000)
    assert not [fact for fact in world.log if fact.name == "reserved"]
    assert {world.phase(work.job) for work in world.works.values()} == {Phase.SUCCEEDED}


def test_reservations_are_given_by_turn_and_not_to_whoever_came_first() -> None:
    """All of them starve; the queue that holds nothing is planned for as often as the one that came before."""
    world = RunningScheduler(nodes=4, gpus=4, queues=("a", "b"))
    for name in ("a", "b"):
        world.queue(name, starving_after_s=10.0)
    hard(world, "small", gpus=1, run_s=1_000, queue="a")
    for index in range(3):
        hard(world, f"h{index}", gpus=4, run_s=1_000, queue="a")
    world.advance(1)
    jobs = {name: [hard(world, f"{name}{index}", gpus=4, run_s=100, queue=name) for index in range(9)] for name in "ab"}
    world.advance(60)
    records = world.core.state.jobs.records
    given = {name: sum(records[one.id].reserved is not None for one in of) for name, of in jobs.items()}
    assert given["b"] > given["a"]


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 200),  # seconds after the one before
        st.integers(1, 8),  # GPUs of a replica
        st.integers(1, 3),  # replicas
        st.integers(1, 600),  # run time
        st.integers(0, 300),  # how much more it says
        st.booleans(),  # preemptible
    ),
    min_size=3,
    max_size=25,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ARRIVALS)
def test_backfill_never_delays_a_reserved_job(arrivals: list[tuple[int, int, int, int, int, bool]]) -> None:
    """Runs end at or before their bound, so no reserved job starts later than at the moment it was promised last."""
    world = floor(nodes=2, gpus=8, starving_after_s=60.0)
    for index, (after_s, gpus, replicas, run_s, spare_s, preemptible) in enumerate(arrivals):
        world.advance(after_s)
        bound_s = float(run_s + spare_s)
        world.come(
            f"j{index}",
            run_s=run_s,
            gpus=gpus,
            replicas=replicas,
            preemptible=preemptible,
            total_run_time_s=bound_s,
            min_slice_s=bound_s,
            grace_s=5.0,
        )
    world.advance(30_000)
    promised: dict[str, int] = {}
    for fact in world.log:
        if fact.name == "reserved":
            assert fact.payload.starts_at <= promised.get(fact.subject_id, fact.payload.starts_at)
            promised[fact.subject_id] = fact.payload.starts_at
        elif fact.name == "placed" and fact.subject_id in promised:
            assert fact.time <= promised[fact.subject_id]
    phases = {world.core.state.jobs.records[job_id].phase for job_id in world.works}
    assert phases <= {Phase.SUCCEEDED, Phase.QUEUED}
    waiting = [job_id for job_id in world.works if world.core.state.jobs.records[job_id].phase is Phase.QUEUED]
    assert all(world.core.state.fleet.could_ever_fit(world.core.state.jobs.records[j].job_class.gang) for j in waiting)
