"""Checks before the first step of a run: the verdict opens the gate, or the whole gang waits again, away from the node.

The plan stands in `placed`, the agent carries it out, health says what it means. A run that is not let through uses no
retry: its job did nothing wrong. After so many in a row that never came to their first step something about the job
itself keeps them from it, and it ends with the words of the last.
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
"""Which checks a job gets before its first step; the same answer for the same job."""

FAILURES_MAX = 5
"""Runs in a row that may end before their first step."""

EXCLUDED_S = 6 * 3_600.0
"""So long a job is kept off a node that failed its checks: then somebody looked after the node, or others would do."""

EXCLUDED_MAX = 8
"""Nodes that one job is kept off at the same time, the newest: each costs work whenever the job is tried."""

UNJUDGED_S = 60.0
"""Beyond the plan's limit: so long a verdict is waited for."""

UNJUDGED = "unjudged"
"""What `running` says of the pre-flight if no verdict came, and the plan lets checks pass that could not run."""


def is_gated(record: JobRecord) -> bool:
    """Whether a job whose pods started has to wait for a verdict."""
    return record.preflight_plan is not None and not record.preflight_fact


def judged_by(record: JobRecord) -> Instant:
    """When no verdict is waited for any more."""
    assert record.preflight_plan is not None
    return after(Instant(record.started_at), record.preflight_plan.limit_s + UNJUDGED_S)


def first_step(record: JobRecord, plan: PreflightPlan, now: Instant) -> Draft | None:
    """`running` for a job that is placed with a plan and whose pods started, or its stop; None while its checks run."""
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
    return _stop(record, f"nobody judged its checks ({plan.suite}) in time", record.started_fact)


def ended_before_first_step(record: JobRecord) -> bool:
    """Whether its pods ended though the gate was never opened: it had no chance to do anything wrong."""
    return record.preflight_plan is not None and not record.running_at


def words(record: JobRecord, exited: PodsExited) -> str:
    """Why a run did not come to its first step."""
    failed = record.preflight_failed
    if failed is not None:
        return f"{failed.suite} failed on {', '.join(failed.nodes) or 'no node'}: {failed.reason}"[:TEXT_CHARS_MAX]
    where = f" on {exited.node}" if exited.node else ""
    return f"its pods ended{where} before its checks were judged: {exited.reason or record.stop_detail}"[
        :TEXT_CHARS_MAX
    ]


def excluded(record: JobRecord, exited: PodsExited, now: Instant) -> tuple[NodeExcluded, ...]:
    """The nodes that the job is kept off from now on."""
    failed = record.preflight_failed
    nodes = failed.nodes if failed is not None else (exited.node,) if exited.node else ()
    because = failed.reason if failed is not None else exited.reason
    until = after(now, EXCLUDED_S)
    return tuple(NodeExcluded(node=node, because=because, until=until) for node in nodes[:EXCLUDED_MAX])


def too_often(record: JobRecord, exited: PodsExited) -> str:
    """Why the job ends, if this was one failure too many; "" if it was not."""
    if record.preflight_failures + 1 < FAILURES_MAX:
        return ""
    reported = words(record, exited)
    return f"{Reason.PREFLIGHT.value}: {FAILURES_MAX} runs in a row ended before their first step; {reported}"[
        :TEXT_CHARS_MAX
    ]


def _running(record: JobRecord, payload: JobRunning, *causes: str) -> Draft:
    return Draft("job", record.id, "running", payload, causes, record.job.trace)


def _stop(record: JobRecord, why: str, cause: str) -> Draft:
    """All of the gang, at once: nothing runs that could write a checkpoint."""
    detail = f"pre-flight: {why}"[:TEXT_CHARS_MAX]
    payload = JobStopRequested(attempt=record.attempt, reason=StopReason.NODE_LOST, detail=detail)
    return Draft("job", record.id, "stop-requested", payload, (cause,), record.job.trace)
