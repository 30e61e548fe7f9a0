"""Checks before the first step of a run: the verdict starts the job, or the whole gang is queued again, away from the
node.

The plan is in `placed`, the agent runs it, and health judges the results. A run that fails its checks uses no retry,
because the job did nothing wrong. After FAILURES_MAX runs in a row that never reached their first step, the job itself
is taken to be the cause, and it fails with the report of the last run.
"""

from collections.abc import Callable

from muster.core import Draft, Instant, after
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.job import JobRunning, JobStopRequested, PodsExited, StopReason
from muster.schemas.facts.operations import NodeExcluded, PreflightPlan
from muster.schemas.job import JobSpec

PlanOf = Callable[[JobSpec], PreflightPlan | None]
"""Returns the checks of a job before its first step; always the same for the same job."""

FAILURES_MAX = 5
"""Runs in a row that may end before their first step."""

EXCLUDED_S = 6 * 3_600.0
"""How long a job is excluded from a node that failed its checks; by then the node is repaired or drained."""

EXCLUDED_MAX = 8
"""Nodes from which one job is excluded at the same time, the newest: each costs work whenever the job is tried."""

UNJUDGED_S = 60.0
"""Time to wait for a verdict beyond the plan's limit."""

UNJUDGED = "unjudged"
"""The pre-flight result in `running` if no verdict came and the plan lets a job start without one."""


def is_gated(record: JobRecord) -> bool:
    """Return whether a job whose pods started has to wait for a verdict."""
    return record.preflight_plan is not None and not record.preflight_fact


def judged_by(record: JobRecord) -> Instant:
    """Return when the wait for a verdict ends."""
    assert record.preflight_plan is not None
    return after(Instant(record.started_at), record.preflight_plan.limit_s + UNJUDGED_S)


def first_step(record: JobRecord, plan: PreflightPlan, now: Instant) -> Draft | None:
    """Return `running` or a stop for a job that is placed with a plan; None while its checks run."""
    failed = record.preflight_failed
    if failed is not None:
        return _stop(record, failed.reason, record.preflight_failed_fact)
    if not record.started_fact:
        return None
    if record.preflight_fact:
        payload = JobRunning(attempt=record.attempt, preflight=plan.suite)
        return _running(record, payload, record.started_fact, record.preflight_fact)
    if now < judged_by(record):
        return None
    if plan.cannot_run_passes:
        return _running(record, JobRunning(attempt=record.attempt, preflight=UNJUDGED), record.started_fact)
    return _stop(record, f"its checks ({plan.suite}) got no verdict in time", record.started_fact)


def ended_before_first_step(record: JobRecord) -> bool:
    """Return whether the job's pods ended before its first step."""
    return record.preflight_plan is not None and not record.running_at


def words(record: JobRecord, exited: PodsExited) -> str:
    """Return why a run did not reach its first step."""
    failed = record.preflight_failed
    if failed is not None:
        return f"{failed.suite} failed on {', '.join(failed.nodes) or 'no node'}: {failed.reason}"[:TEXT_CHARS_MAX]
    where = f" on {exited.node}" if exited.node else ""
    return f"its pods ended{where} before its checks were judged: {exited.reason or record.stop_detail}"[
        :TEXT_CHARS_MAX
    ]


def excluded(record: JobRecord, exited: PodsExited, now: Instant) -> tuple[NodeExcluded, ...]:
    """Return the nodes from which the job is excluded from now on."""
    failed = record.preflight_failed
    nodes = failed.nodes if failed is not None else (exited.node,) if exited.node else ()
    because = failed.reason if failed is not None else exited.reason
    until = after(now, EXCLUDED_S)
    return tuple(NodeExcluded(node=node, because=because, until=until) for node in nodes[:EXCLUDED_MAX])


def too_often(record: JobRecord, exited: PodsExited) -> str:
    """Return why the job fails if this was one failure too many; "" if it was not."""
    if record.preflight_failures + 1 < FAILURES_MAX:
        return ""
    reported = words(record, exited)
    return f"{Reason.PREFLIGHT.value}: {FAILURES_MAX} runs in a row ended before their first step; {reported}"[
        :TEXT_CHARS_MAX
    ]


def _running(record: JobRecord, payload: JobRunning, *causes: str) -> Draft:
    return Draft("job", record.id, "running", payload, causes, record.job.trace)


def _stop(record: JobRecord, why: str, cause: str) -> Draft:
    """Stop the whole gang at once: no process runs that could write a checkpoint."""
    detail = f"pre-flight: {why}"[:TEXT_CHARS_MAX]
    payload = JobStopRequested(attempt=record.attempt, reason=StopReason.NODE_LOST, detail=detail)
    return Draft("job", record.id, "stop-requested", payload, (cause,), record.job.trace)
