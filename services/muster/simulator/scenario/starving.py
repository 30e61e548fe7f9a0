"""What was kept, before the scenario began, for jobs that starve already.

A cluster in which a job has waited for hours reserved its places long ago: before those came who would take them now.
A scenario says what runs and what waits, not what was reserved; so that is found first, in a cluster in which only the
starving wait, and nobody is placed.
"""

import dataclasses
from collections.abc import Callable

from muster.core import Draft
from muster.schemas.facts.job import JobReserved
from muster.simulator.engine import Engine
from muster.simulator.scenario.plan import NOW, Plan

_GRANTS = frozenset({"released", "withheld", "booked"})


def grant(engine: Engine) -> None:
    """Release the nodes and book what is reserved in advance; nothing else is decided."""
    engine.settle_core("scheduler", only=lambda draft: draft.name in _GRANTS and draft.kind != "job")


def keep_for_starving(engine: Engine, plan: Plan, started: Callable[[Plan], Engine]) -> None:
    """Say in the engine, whose nodes are released, what was reserved before. started: an engine that folded a plan."""
    waiting = [job for job in plan.jobs if job.run is None]
    if all(job.starves_at > NOW for job in waiting):
        return
    earlier = tuple(job for job in plan.jobs if job.run is not None or job.starves_at <= NOW)
    before = started(dataclasses.replace(plan, jobs=earlier))
    grant(before)
    before.settle_core("scheduler", only=_is_kept)
    for record in before.scheduler.state.jobs.records.values():
        if record.reserved is not None:
            engine.write("scheduler", "job", record.id, "reserved", record.reserved, trace=record.job.trace)


def _is_kept(draft: Draft) -> bool:
    return isinstance(draft.payload, JobReserved) and not draft.payload.victims
