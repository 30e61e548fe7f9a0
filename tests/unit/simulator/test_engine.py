"""Virtual time: nothing waits, nothing is drawn, and every invariant of the harness holds on the way."""

import dataclasses
from collections.abc import Iterator, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import regular_fleet
from muster.core import NS_PER_S, Core, Draft, Fact, Instant, after
from muster.schemas.facts.node import WithholdRequested
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup
from muster.schemas.labels import RUN_S
from muster.simulator.engine import START, Engine, Pace, join_nodes, set_queue
from muster.simulator.load.trace import job_of


def job(name: str, *, gpus: int = 1, run_s: float = 60.0, at_s: float = 0.0) -> Job:
    spec = JobSpec(
        name=name, team="q", task_groups=(TaskGroup(gpus=gpus, cpu_milli=0, memory_mib=0),),
        labels={RUN_S: str(run_s), "sim.muster.dev/exit-code": "0"},
    )  # fmt: skip
    return job_of(spec, after(START, at_s), key=name)


def engine(
    *, nodes: int = 2, pace: Pace | None = None, log: list[Fact] | None = None, beside: Mapping[str, Core] | None = None
) -> Engine:
    fleet = regular_fleet(
        nodes=nodes, gpus_per_node=8, gpu_model="H100", cpu_milli=128_000, memory_mib=1_048_576, rack_size=8,
        racks_per_block=8,
    )  # fmt: skip
    watch = None if log is None else log.append
    made = Engine(fleet, behaviour=Behaviour(seed=1, start_s=2.0), start=START, pace=pace, watch=watch, beside=beside)
    join_nodes(made)
    set_queue(made, QueueSpec(name="q"), at="queues[0]")
    return made


def test_jobs_come_run_and_end_at_their_times() -> None:
    world = engine(nodes=1)
    jobs = [job("a", gpus=8, run_s=100), job("b", gpus=8, run_s=50, at_s=10)]
    for _ in world.moments(after(START, 1000), arrivals=world.arrivals([(one.submitted_at, one) for one in jobs])):
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
    world.advance_to(after(START, 15))
    assert done == ["first", "second"]
    world.advance_to(after(START, 30))
    assert done == ["first", "second", "later"]


def test_steps_round_moments_up() -> None:
    log = list[Fact]()
    world = engine(pace=Pace(step_ns=5 * NS_PER_S, thorough=False), log=log)
    for _ in world.moments(after(START, 300), arrivals=world.arrivals([(after(START, 7.3), job("a", at_s=7.3))])):
        pass
    assert {(fact.time - START) % (5 * NS_PER_S) for fact in log} == {0}
    assert next(fact.time for fact in log if fact.name == "routed") == after(START, 10)


class Bell:
    """A core beside the others: says once, ten seconds after a job was placed, that its node is to be withheld."""

    def __init__(self) -> None:
        self.due: Instant | None = None
        self.rang = 0

    def apply(self, fact: Fact) -> None:
        if fact.name == "placed" and not self.rang:
            self.due = after(fact.time, 10)
        if fact.writer == "health":
            self.due, self.rang = None, self.rang + 1

    def decide(self, now: Instant) -> list[Draft]:
        if self.due is None or self.due > now:
            return []
        return [Draft("node", "gpu-0001", "withhold-requested", WithholdRequested(request_id="bell"))]

    def next_wakeup(self) -> Instant | None:
        return self.due

    def snapshot(self) -> Iterator[Draft]:
        yield from ()


def test_a_core_beside_the_others_folds_their_facts_decides_at_its_time_and_is_heard() -> None:
    bell, log = Bell(), list[Fact]()
    world = engine(nodes=1, log=log, beside={"health": bell})
    one = job("a", run_s=100)
    for _ in world.moments(after(START, 300), arrivals=world.arrivals([(one.submitted_at, one)])):
        pass
    placed, asked, withheld = (
        next(fact.time for fact in log if fact.name == name) for name in ("placed", "withhold-requested", "withheld")
    )
    assert asked == after(placed, 10)
    assert withheld >= after(placed, 100), "the scheduler heard it, and answered when the job had ended"
    assert bell.rang == 1


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
        for _ in world.moments(after(START, 50_000), arrivals=world.arrivals(came)):
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
        for _moment in world.moments(after(START, 5000), arrivals=world.arrivals(jobs)):
            pass
        logs.append([dataclasses.astuple(fact) for fact in log])
    assert logs[0] == logs[1]
    assert [fact[1] for fact in logs[0]] == list(range(1, len(logs[0]) + 1))
