"""A scenario played: decide until nothing changes, with an agent that reacts at once and a clock that stands."""

from muster.core import Instant, after
from muster.scheduler.core.jobs import JobRecord
from muster.schemas.job import Phase
from muster.simulator.engine import Engine
from muster.simulator.scenario.history import engine_at_start
from muster.simulator.scenario.model import Scenario
from muster.simulator.scenario.outcome import ScenarioOutcome, Ways, outcome_of
from muster.simulator.scenario.plan import plan_of

ROUNDS_MAX = 2_000
"""Decisions that may change something before a scenario counts as one that never becomes stable."""
ROUNDS_AFTER = 5
"""Rounds after the first in which nothing changed: none of them may change anything either."""
REACTING_S_MAX = 600.0
"""Time for pods to obey: a notice, an exit, a start. A clock that stands would wait for them for ever."""

_Places = dict[str, tuple[Phase, int, int]]


def simulate(scenario: Scenario, *, after_s: float = 0.0, rounds_max: int = ROUNDS_MAX) -> ScenarioOutcome:
    """What the scheduler makes of it. after_s: then let so many seconds pass, jobs running on.

    Raises InputError where the scenario cannot be, SimulationError if decisions never end.
    """
    plan = plan_of(scenario)
    ways = Ways()
    engine = engine_at_start(plan, watch=ways.watch)
    stable, rounds = settle(engine, rounds_max=rounds_max)
    if after_s:
        engine.run(after(engine.now, after_s))
    names = {job.job.id: job.name for job in plan.jobs}
    return outcome_of(engine, names, ways, stable=stable, rounds=rounds)


def settle(engine: Engine, *, rounds_max: int = ROUNDS_MAX) -> tuple[bool, int]:
    """Decide until stable: (whether it is, decisions that said something). Time passes only while pods obey."""
    latest = _latest(engine)
    rounds = 0
    while rounds < rounds_max:
        if engine.step():
            rounds += 1
            continue
        due = engine.next_moment() if _in_motion(engine) else None
        if due is None:
            return _stays(engine), rounds
        if due > latest:
            return False, rounds
        engine.now = due
    return False, rounds


def _stays(engine: Engine) -> bool:
    """Whether asking again changes where jobs stand."""
    before = _places(engine)
    for _ in range(ROUNDS_AFTER):
        engine.step(ask_again=True)
        if _places(engine) != before:
            return False
    return True


def _places(engine: Engine) -> _Places:
    records = engine.scheduler.state.jobs.records.values()
    return {record.id: (record.phase, record.attempt, len(record.slots)) for record in records}


def _in_motion(engine: Engine) -> bool:
    jobs = engine.scheduler.state.jobs
    if jobs.counts[Phase.PLACED] or jobs.counts[Phase.STOPPING]:
        return True
    return any(record.resize is not None for record in jobs.records.values())


def _latest(engine: Engine) -> Instant:
    """Pods have until then to obey: not past the next end of a slice, after which others could be preempted."""
    latest = after(engine.now, REACTING_S_MAX)
    for record in engine.scheduler.state.jobs.records.values():
        ends = _slice_end(record)
        if ends is not None and ends > engine.now:
            latest = min(latest, ends)
    return latest


def _slice_end(record: JobRecord) -> Instant | None:
    if record.phase is not Phase.RUNNING or not record.job.spec.preemptible:
        return None
    return after(Instant(record.running_at), record.min_slice_s)
