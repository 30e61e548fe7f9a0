"""How facts about jobs change what the upgrader believes: who holds which node, and until when."""

from collections.abc import Callable

from muster.core import Fact
from muster.schemas.facts.job import (
    JobPlaced,
    JobQueued,
    JobResized,
    JobResizeRequested,
    JobRouted,
    JobState,
    PodsExited,
)
from muster.schemas.job import Phase
from muster.upgrader.core.jobs import Job, held
from muster.upgrader.core.state import State

_HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    job = fact.payload.job
    if job.id not in state.jobs:
        state.jobs[job.id] = Job(job.id, job.spec, job.spec.total_run_time_s, slice_s=job.spec.min_slice_s)


def _queued(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobQueued)
    job = state.jobs.get(fact.subject_id)
    if job is None:
        return
    payload = fact.payload
    hold(state, job, at=fact.time)
    job.ran_s += job.exited_s
    job.exited_s = 0.0
    job.placed_at = job.running_at = 0
    job.total_s = job.spec.total_run_time_s if payload.total_run_time_s is None else payload.total_run_time_s
    job.slice_s = job.spec.min_slice_s if payload.min_slice_s is None else payload.min_slice_s


def _placed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobPlaced)
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.slots, job.growing = fact.payload.slots, ()
        job.placed_at, job.running_at = fact.time, 0
        hold(state, job, at=fact.time, holds=True)


def _running(state: State, fact: Fact) -> None:
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.running_at = fact.time
        state.moves += bool(state.campaigns)


def _exited(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsExited)
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.exited_s = fact.payload.ran_s


def _resize_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobResizeRequested)
    job = state.jobs.get(fact.subject_id)
    if job is not None and job.milli:
        job.growing = fact.payload.slots
        hold(state, job, at=fact.time, holds=True)


def _resized(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobResized)
    job = state.jobs.get(fact.subject_id)
    if job is not None and job.milli:
        job.slots, job.growing = fact.payload.slots, ()
        hold(state, job, at=fact.time, holds=True)


def _ended(state: State, fact: Fact) -> None:
    job = state.jobs.pop(fact.subject_id, None)
    if job is not None:
        hold(state, job, at=fact.time)


def load(state: State, stored: JobState) -> None:
    """A job as a checkpoint says."""
    spec = stored.job.spec
    if stored.phase.is_terminal:
        return
    job = state.jobs[stored.job.id] = Job(
        stored.job.id,
        spec,
        spec.total_run_time_s if stored.total_run_time_s is None else stored.total_run_time_s,
        slice_s=spec.min_slice_s if stored.min_slice_s is None else stored.min_slice_s,
        ran_s=stored.ran_s,
        exited_s=stored.exited.ran_s if stored.exited is not None else 0.0,
    )
    if stored.phase in _HOLDING:
        job.slots = stored.slots
        job.growing = stored.resize.slots if stored.resize is not None else ()
        job.placed_at, job.running_at = stored.placed_at, stored.running_at
        hold(state, job, at=0, holds=True)


def hold(state: State, job: Job, *, at: int, holds: bool = False) -> None:
    """It holds what its slots say from `at` on, or nothing. at 0: a checkpoint says so, and nothing is counted."""
    if not holds:
        job.slots = job.growing = ()
    before, now = job.milli, held(job.slots, job.growing)
    job.milli = now
    for name in {**before, **now}:
        if before.get(name) == now.get(name):
            continue
        node = state.node(name)
        if at and state.campaigns:
            state.count_idle(node, at)
            state.moves += 1
        if name in now:
            node.jobs[job.id] = now[name]
        else:
            node.jobs.pop(job.id, None)
            state.forget_node(name)


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "routed"): _routed,
    ("job", "queued"): _queued,
    ("job", "placed"): _placed,
    ("job", "running"): _running,
    ("job", "pods-exited"): _exited,
    ("job", "resize-requested"): _resize_requested,
    ("job", "resized"): _resized,
    **{("job", name): _ended for name in ("succeeded", "failed", "cancelled", "timed-out", "returned")},
}
