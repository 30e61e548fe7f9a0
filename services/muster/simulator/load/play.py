"""A load through the cores: nodes and queues first, then jobs as they come, until all have ended or time is up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.core import NS_PER_S, Instant, after, seconds_between
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.queue import QueueSpec
from muster.simulator.engine import CHECKPOINT_NEVER, START, Engine, Pace, join_nodes, set_queue
from muster.simulator.load.recorder import Recorder
from muster.simulator.load.trace import Arrival
from muster.simulator.scenario.history import engine_at_start
from muster.simulator.scenario.plan import Plan

SAMPLES = 400
"""Moments at which a report looks at the whole fleet, at least; it has less than twice as many."""
EXPLAIN_EVERY_S = 6 * 3600.0
"""Minimum time between two reasons of a waiting job: every reason is a fact, and weeks need few of them."""
INTERVAL_S_LEAST = 1.0
TRIAL_MS_PER_S = 0.03
"""For trials of preemption, of each virtual second: as the scheduler estimates them, 18 seconds of a week."""
SURVEY_EVERY_S = 900.0
"""Virtual seconds between two searches of the whole fleet: reservations, growth, defragmentation."""
LIMITS = Limits(
    unschedulable_interval_s=EXPLAIN_EVERY_S,
    checkpoint_every_facts=CHECKPOINT_NEVER,
    trial_ms_per_s=TRIAL_MS_PER_S,
    survey_every_s=SURVEY_EVERY_S,
)
STEP_S = 1.0
"""Moments of a long simulation: what happens within one of these is decided together."""

Reached = Callable[[float, int], None]
"""Called with the progress: virtual seconds, facts so far."""


@dataclass(frozen=True, slots=True)
class Load:
    """nodes: by name. queues: with their places in their file, parents first. arrivals: earliest first.

    until: when it ends at the latest.
    """

    name: str
    nodes: Mapping[str, NodeJoined]
    queues: Sequence[tuple[str, QueueSpec]]
    arrivals: Sequence[Arrival]
    until: Instant
    behaviour: Behaviour


@dataclass(frozen=True, slots=True)
class Played:
    """Results. ended_at: when the last job ended, or at the time limit. facts: number of facts in the log."""

    load: Load
    recorder: Recorder
    ended_at: Instant
    facts: int

    @property
    def virtual_s(self) -> float:
        """Virtual seconds from the start."""
        return seconds_between(START, self.ended_at)


def play(load: Load, *, reached: Reached | None = None, step_s: float = STEP_S) -> Played:
    """Raises InputError if a queue cannot be, NeverSettlesError if decisions never end."""
    recorder = Recorder()
    engine = Engine(
        load.nodes,
        behaviour=load.behaviour,
        start=START,
        limits=LIMITS,
        pace=pace_of(step_s),
        watch=recorder.watch,
    )
    join_nodes(engine)
    for at, spec in load.queues:
        set_queue(engine, spec, at=at)
    return run_load(engine, load, recorder, reached=reached)


def play_from(plan: Plan, load: Load, *, reached: Reached | None = None, step_s: float = STEP_S) -> Played:
    """Run the load in a cluster that has the plan's nodes, queues and jobs already; only new jobs of the load count.

    Raises InputError for an impossible plan, NeverSettlesError if decisions never end.
    """
    recorder = Recorder()
    engine = engine_at_start(plan, behaviour=load.behaviour, watch=recorder.watch, limits=LIMITS, pace=pace_of(step_s))
    return run_load(engine, load, recorder, reached=reached)


def pace_of(step_s: float) -> Pace:
    """Moments on multiples of `step_s`, and no decision that could say nothing."""
    return Pace(step_ns=max(1, round(step_s * NS_PER_S)), thorough=False)


def run_load(engine: Engine, load: Load, recorder: Recorder, *, reached: Reached | None = None) -> Played:
    """Let the load's jobs come to an engine that knows its nodes and queues, and may have jobs already."""
    last = load.arrivals[-1][0] if load.arrivals else load.until
    sampler = _Sampler(engine, recorder, seconds_between(engine.now, last) / SAMPLES, reached)
    engine.at(engine.now, sampler.look)
    total = len(recorder.tracks) + len(load.arrivals)
    for _ in engine.moments(load.until, arrivals=engine.arrivals(load.arrivals)):
        if not recorder.live and len(recorder.tracks) == total:
            break
    recorder.close(engine.now)
    return Played(load, recorder, engine.now, engine.seq)


class _Sampler:
    """Sampler of the fleet every `interval_s`; at twice SAMPLES it drops every second one and doubles the interval."""

    def __init__(self, engine: Engine, recorder: Recorder, interval_s: float, reached: Reached | None) -> None:
        self._engine = engine
        self._recorder = recorder
        self._interval_s = max(interval_s, INTERVAL_S_LEAST)
        self._reached = reached

    def look(self) -> None:
        """Take a sample now, and again after the interval."""
        engine, samples = self._engine, self._recorder.samples
        state = engine.scheduler.state
        state.proposals.settle()
        capacity = sum(total.total_milli for total in state.fleet.totals.values())
        self._recorder.sample(engine.now, capacity=capacity, fragmentation=state.fleet.fragmentation())
        if self._reached is not None:
            self._reached(seconds_between(START, engine.now), engine.seq)
        if len(samples) >= 2 * SAMPLES:
            del samples[1::2]
            self._interval_s *= 2
        engine.at(after(engine.now, self._interval_s), self.look)
