"""How facts about jobs change what the upgrader believes: who holds which node, and until when."""

from collections import Counter
from collections.abc import Callable

from muster.cluster import HOLD_FACTS
from muster.core import Fact
from muster.schemas.facts.job import (
    JobQueued,
    JobRouted,
    JobState,
    PodsExited,
)
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core.jobs import Job
from muster.upgrader.core.state import State


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    job = fact.payload.job
    if job.id not in state.jobs:
        state.jobs[job.id] = Job(job.id, job.spec, job.spec.total_run_time_s, slice_s=job.spec.min_slice_s)


def _queued(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobQueued)
    _held(state, fact)
    job = state.jobs.get(fact.subject_id)
    if job is None:
        return
    payload = fact.payload
    job.ran_s += job.exited_s
    job.exited_s = 0.0
    job.running_at = 0
    job.total_s = job.spec.total_run_time_s if payload.total_run_time_s is None else payload.total_run_time_s
    job.slice_s = job.spec.min_slice_s if payload.min_slice_s is None else payload.min_slice_s


def _running(state: State, fact: Fact) -> None:
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.running_at = fact.time
        state.moves += bool(state.campaigns)


def _exited(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsExited)
    _held(state, fact)
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.exited_s = fact.payload.ran_s


def _ended(state: State, fact: Fact) -> None:
    _held(state, fact)
    state.jobs.pop(fact.subject_id, None)


def load(state: State, fact: Fact) -> None:
    """A job as a checkpoint says."""
    stored = fact.payload
    assert isinstance(stored, JobState)
    if stored.phase.is_terminal:
        return
    spec = stored.job.spec
    state.jobs[stored.job.id] = Job(
        stored.job.id,
        spec,
        spec.total_run_time_s if stored.total_run_time_s is None else stored.total_run_time_s,
        slice_s=spec.min_slice_s if stored.min_slice_s is None else stored.min_slice_s,
        ran_s=stored.ran_s,
        exited_s=stored.exited.ran_s if stored.exited is not None else 0.0,
        running_at=stored.running_at,
    )
    _held(state, fact)


def _held(state: State, fact: Fact) -> None:
    """What is held changes; up to then, what was not held of a node that is kept was idle."""
    change = state.holds.apply(fact)
    if change is None:
        return
    taken_milli: Counter[str] = Counter()
    for slot in change.taken:
        taken_milli[slot.node] += slot.gpu_milli_held
    for slot in change.freed:
        taken_milli[slot.node] -= slot.gpu_milli_held
    for name, milli in taken_milli.items():
        if state.campaigns and fact.name != STATE_NAME:
            state.count_idle(name, fact.time, taken_milli=milli)
            state.moves += 1


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "routed"): _routed,
    **{("job", name): _held for name in HOLD_FACTS},
    ("job", "queued"): _queued,
    ("job", "running"): _running,
    ("job", "pods-exited"): _exited,
    **{("job", name): _ended for name in ("succeeded", "failed", "cancelled", "timed-out", "returned")},
}
