"""Virtual time: nothing waits, nothing is drawn, and every invariant of the house holds on the way."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import regular_fleet
from muster.core import NS_PER_S, Fact, after
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup
from muster.schemas.labels import RUN_S
from muster.simulator.engine import START, Engine, Pace
from muster.simulator.load.trace import job_of
from muster.simulator.setup import join_nodes, set_queue


def job(name: str, *, gpus: int = 1, run_s: float = 60.0, at_s: float = 0.0) -> Job:
    spec = JobSpec(
        name=name, team="q", task_groups=(TaskGroup(gpus=gpus, cpu_milli=0, memory_mib=0),),
        labels={RUN_S: str(run_s), "sim.muster.dev/exit-code": "0"},
    )  # fmt: skip
    return job_of(spec, after(START, at_s), key=name)


def engine(*, nodes: int = 2, pace: Pace | None = None, log: list[Fact] | None = None) -> Engine:
    fleet = regular_fleet(
        nodes=nodes, gpus_per_node=8, gpu_model="H100", cpu_milli=128_000, memory_mib=1_048_576, rack_size=8,
        racks_per_block=8,
    )  # fmt: skip
    watch = None if log is None else log.append
    made = Engine(fleet, behaviour=Behaviour(seed=1, start_s=2.0), start=START, pace=pace, watch=watch)
    join_nodes(made)
    set_queue(made, QueueSpec(name="q"), at="queues[0]")
    return made


def test_jobs_come_run_and_end_at_their_times() -> None:
    world = engine(nodes=1)
    jobs = [job("a", gpus=8, run_s=100), job("b", gpus=8, run_s=50, at_s=10)]
    for _ in world.moments(after(START, 1000), jobs=[(one.submitted_at, one) for one in jobs]):
        pass
    first, second = (world.scheduler.state.jobs.records[one.id] for one in jobs)
    assert first.phase is second.phase is Phase.SUCCEEDED
    assert first.running_at >= after(START, 0)
    assert 100 <= (first.ended_at - first.running_at) / NS_PER_S <= 101
    assert first.ended_at <= second.placed_at <= first.ended_at + NS_PER_S
    assert world.now == after(START, 1000)


def test_what_comes_from_outside_comes_in_its_order() -> None:
    world, done = engine(), list[str]()
    world.at(after(START, 20), lambda: done.append("later"))
    world.at(after(START, 10), lambda: done.append("first"))
    world.at(after(START, 10), lambda: done.append("second"))
    world.run(after(START, 15))
    assert done == ["first", "second"]
    world.run(after(START, 30))
    assert done == ["first", "second", "later"]


def test_steps_round_moments_up() -> None:
    log = list[Fact]()
    world = engine(pace=Pace(step_ns=5 * NS_PER_S, thorough=False), log=log)
    for _ in world.moments(after(START, 300), jobs=[(after(START, 7.3), job("a", at_s=7.3))]):
        pass
    assert {(fact.time - START) % (5 * NS_PER_S) for fact in log} == {0}
    assert next(fact.time for fact in log if fact.name == "routed") == after(START, 10)


LOADS = st.lists(
    st.tuples(st.integers(0, 8), st.floats(1, 500), st.floats(0, 900)), min_size=1, max_size=25
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(LOADS)
def test_sparing_decisions_changes_nothing_that_counts(load: list[tuple[int, float, float]]) -> None:
    """What is skipped after facts that free nothing would have said nothing."""
    ended = []
    for thorough in (True, False):
        world = engine(pace=Pace(step_ns=NS_PER_S, thorough=thorough))
        jobs = [job(f"j{at}", gpus=gpus, run_s=run_s, at_s=at_s) for at, (gpus, run_s, at_s) in enumerate(load)]
        came = sorted(((one.submitted_at, one) for one in jobs), key=lambda arrival: arrival[0])
        for _ in world.moments(after(START, 50_000), jobs=came):
            pass
        ended.append({one.id: _fate(world, one) for one in jobs})
    assert ended[0] == ended[1]


def _fate(world: Engine, one: Job) -> object:
    record = world.scheduler.state.jobs.records[one.id]
    assert record.phase is Phase.SUCCEEDED
    return record.placed_at, record.ended_at


def test_two_runs_write_the_same_log() -> None:
    logs = []
    for _ in range(2):
        log = list[Fact]()
        world = engine(log=log)
        jobs = [(after(START, at), job(f"j{at}", gpus=5, run_s=30 + at, at_s=at)) for at in range(20)]
        for _moment in world.moments(after(START, 5000), jobs=jobs):
            pass
        logs.append([dataclasses.astuple(fact) for fact in log])
    assert logs[0] == logs[1]
    assert [fact[1] for fact in logs[0]] == list(range(1, len(logs[0]) + 1))
