"""A scenario played: decide until nothing changes, with an agent that reacts at once and a clock that stands."""

from dataclasses import replace

from muster.core import Fact, Instant, after
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.job import Phase
from muster.simulator.engine import Engine
from muster.simulator.errors import InputError
from muster.simulator.scenario.history import engine_at_start
from muster.simulator.scenario.model import Expected, Scenario
from muster.simulator.scenario.outcome import ScenarioOutcome, Ways, outcome_of
from muster.simulator.scenario.plan import Plan, plan_of
from muster.simulator.scenario.scaling import Choices

ROUNDS_MAX = 2_000
"""Decisions that may change something before a scenario counts as one that never becomes stable."""
ROUNDS_AFTER = 5
"""Rounds after the first in which nothing changed: none of them may change anything either."""
REACTING_S_MAX = 600.0
"""Time for pods to obey: a notice, an exit, a start. A clock that stands would wait for them for ever."""
THINKING_S = 1.0
"""The scheduler spreads long searches over moments; one that it goes on with so soon is waited for."""
MOMENTS_MAX = 10_000
"""Moments that a scenario may take to come to rest."""

_Places = dict[str, tuple[Phase, int, int]]


def simulate(scenario: Scenario, *, after_s: float = 0.0, rounds_max: int = ROUNDS_MAX) -> ScenarioOutcome:
    """Run the scenario, and return the decisions. after_s: advance the time by this afterwards; jobs continue to run.

    Raises InputError for an impossible scenario, NeverSettlesError if decisions never end.
    """
    plan = plan_of(scenario)
    refuse_unknown(scenario.expect, plan)
    ways, choices = Ways(), Choices()

    def watch(fact: Fact) -> None:
        ways.watch(fact)
        choices.watch(fact)

    engine = engine_at_start(plan, watch=watch)
    if scenario.scaling is not None:
        engine.advance_to(after(engine.now, scenario.scaling.for_s))
    stable, rounds = settle(engine, rounds_max=rounds_max)
    if after_s:
        engine.advance_to(after(engine.now, after_s))
    names = {job.job.id: job.name for job in plan.jobs}
    outcome = outcome_of(engine, names, ways, stable=stable, rounds=rounds)
    if engine.scaled is None:
        return outcome
    return replace(outcome, scaling=choices.outcome(engine, engine.scaled, names=names))


def refuse_unknown(expected: Expected, plan: Plan) -> None:
    """Raise InputError for a job or queue of `expect` that the scenario does not have."""
    jobs, queues = {job.name for job in plan.jobs}, {spec.name for _, spec in plan.queues}
    for part, named, known in (("jobs", expected.jobs, jobs), ("queues", expected.queues, queues)):
        for name in named:
            if name not in known:
                raise InputError(f"expect.{part}.{name}", f"the scenario has no such name among its {part}")


def settle(engine: Engine, *, rounds_max: int = ROUNDS_MAX) -> tuple[bool, int]:
    """Decide until stable: (whether it is, decisions that said something). Time passes only while pods obey."""
    latest = _latest(engine)
    rounds = 0
    for _ in range(MOMENTS_MAX):
        while engine.step():
            rounds += 1
            if rounds >= rounds_max:
                return False, rounds
        due = engine.next_moment()
        if due is None or not (_in_motion(engine) or (due <= after(engine.now, THINKING_S) and due <= latest)):
            return _stays(engine), rounds
        if due > latest:
            return False, rounds
        engine.now = due
    return False, rounds


def _stays(engine: Engine) -> bool:
    """Return whether another decision leaves the states of the jobs unchanged."""
    before = _places(engine)
    for _ in range(ROUNDS_AFTER):
        engine.step(ask_all=True)
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
    """Pods have until then to obey: not up to the next end of a slice, nor until the next job starves."""
    state = engine.scheduler.state
    latest = after(engine.now, REACTING_S_MAX)
    for record in state.jobs.records.values():
        moment = _matters_at(record, state.queues)
        if moment is not None and moment > engine.now:
            latest = min(latest, Instant(moment - 1))
    return latest


def _matters_at(record: JobRecord, queues: QueueTree) -> Instant | None:
    """When time alone changes what may be done with the job, or for it."""
    if record.phase is Phase.RUNNING and record.job.spec.preemptible:
        return after(Instant(record.running_at), record.min_slice_s)
    if record.phase is Phase.QUEUED and record.queue in queues.queues:
        return after(Instant(record.queued_at), queues.policy(record.queue).starving_after_s)
    return None
