"""A load through the cores: nodes and queues first, then jobs as they come, until all have ended or time is up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.core import NS_PER_S, Instant, after, seconds_between
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.queue import QueueSpec
from muster.simulator.engine import CHECKPOINT_NEVER, Engine, Pace
from muster.simulator.load.recorder import Recorder
from muster.simulator.load.trace import Arrival
from muster.simulator.setup import join_nodes, set_queue

START = Instant(2_000_000_000 * NS_PER_S)
SAMPLES = 600
"""Moments at which a report looks at the whole fleet."""
EXPLAIN_EVERY_S = 6 * 3600.0
"""A waiting job hears a new reason at most so often: over weeks nobody reads more, and every reason is a fact."""
STEP_S = 1.0
"""Moments of a long simulation: what happens within one of these is decided together."""

Reached = Callable[[float, int], None]
"""Told how far it is: virtual seconds, facts so far."""


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
    """What came of it. ended_at: when the last job had ended, or time was up. facts: how many the log holds."""

    load: Load
    recorder: Recorder
    ended_at: Instant
    facts: int

    @property
    def virtual_s(self) -> float:
        """Virtual seconds from the start."""
        return seconds_between(START, self.ended_at)


def play(load: Load, *, reached: Reached | None = None, step_s: float = STEP_S, samples: int = SAMPLES) -> Played:
    """Raises InputError if a queue cannot be, SimulationError if decisions never end."""
    recorder = Recorder()
    engine = Engine(
        load.nodes,
        behaviour=load.behaviour,
        start=START,
        limits=Limits(unschedulable_interval_s=EXPLAIN_EVERY_S, checkpoint_every_facts=CHECKPOINT_NEVER),
        pace=Pace(step_ns=max(1, round(step_s * NS_PER_S)), thorough=False),
        watch=recorder.watch,
    )
    join_nodes(engine)
    for at, spec in load.queues:
        set_queue(engine, spec, at=at)
    return run_load(engine, load, recorder, reached=reached, samples=samples)


def run_load(
    engine: Engine, load: Load, recorder: Recorder, *, reached: Reached | None = None, samples: int = SAMPLES
) -> Played:
    """Let the load's jobs come to an engine that knows its nodes and queues, and may have jobs already."""
    begin = engine.now
    interval_s = seconds_between(begin, load.until) / max(1, samples)
    _sample_from(engine, recorder, interval_s, load.until, reached)
    total = len(recorder.tracks) + len(load.arrivals)
    for _ in engine.moments(load.until, jobs=load.arrivals):
        if not recorder.live and len(recorder.tracks) == total:
            break
    recorder.close(engine.now)
    return Played(load, recorder, engine.now, engine.seq)


def _sample_from(
    engine: Engine, recorder: Recorder, interval_s: float, until: Instant, reached: Reached | None
) -> None:
    """Look at the fleet now and every `interval_s` until then."""

    def look() -> None:
        fleet = engine.scheduler.state.books.fleet
        engine.scheduler.state.books.settle()
        capacity = sum(total.total_milli for total in fleet.totals.values())
        recorder.sample(engine.now, capacity=capacity, fragmentation=fleet.fragmentation())
        if reached is not None:
            reached(seconds_between(START, engine.now), engine.seq)
        following = after(engine.now, interval_s)
        if following <= until:
            engine.at(following, look)

    engine.at(engine.now, look)
