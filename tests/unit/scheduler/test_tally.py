"""Live jobs counted as they change are those that one would count anew."""

from hypothesis import HealthCheck, given, settings

from kit.scheduler import VirtualScheduler
from kit.scheduler_properties import HISTORY, Harness
from muster.scheduler.tally import HELD, RUNNING, WAITING, Tally, changed_by


def counted_anew(world: VirtualScheduler) -> Tally:
    tally = Tally()
    tally.see_all(world.core.state.jobs.records.values())
    return tally


def figures(tally: Tally) -> tuple[dict[object, int], ...]:
    """Everything that it says, without zeros."""
    sums = (tally.by_team, tally.by_queue, tally.team_milli, tally.queue_milli, tally.model_milli)
    waiting = {queue: set(jobs.items()) for queue, jobs in tally.waiting.items()}
    return (*({key: value for key, value in one.items() if value} for one in sums), waiting)  # type: ignore[return-value]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=HISTORY)
def test_what_is_counted_as_it_changes_is_what_there_is(history: list[tuple[str, int, int]]) -> None:
    harness = Harness()
    world = harness.world
    tally, seen, core = counted_anew(world), len(world.log), world.core
    for op, which, extra in history:
        harness.do(op, which, extra)
        if world.core is not core:  # it crashed and recovered: a new term counts anew
            tally, core = counted_anew(world), world.core
        else:
            for job_id in changed_by(world.log[seen:], core.state):
                tally.see(job_id, core.state.jobs.records.get(job_id))
        seen = len(world.log)
        assert figures(tally) == figures(counted_anew(world))


def test_the_first_of_a_queue_tells_how_long_is_waited() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    world.submit("runs")
    first = world.submit("first")
    since = world.now
    world.advance(60.0)
    world.submit("second")
    tally = counted_anew(world)
    assert tally.oldest_wait("lab") == since
    world.hold(first)
    for job_id in changed_by(world.log, world.core.state):
        tally.see(job_id, world.core.state.jobs.records.get(job_id))
    assert tally.oldest_wait("lab") == world.now
    assert tally.by_queue["lab", HELD] == 1
    assert tally.by_queue["lab", WAITING] == 1
    assert tally.oldest_wait("nowhere") == 0
    assert tally.by_queue["lab", RUNNING] == 0
