"""Routes of a job's device readings, its output and its pods."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from muster.bus.names import output_stream
from muster.gateway.api.dependencies import Caller, Context
from muster.gateway.api.openapi import refusals
from muster.gateway.api.parameters import Count, JobId
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.context import AppContext
from muster.gateway.feed import parse_cursor
from muster.gateway.problems import unavailable
from muster.gateway.readings import OutputFilter, Readings
from muster.schemas.job import GROUPS_MAX, REPLICAS_MAX
from muster.schemas.live import OLDEST, JobReadings, OutputPage
from muster.schemas.pods import KUBERNETES, JobPod, JobPods, namespace_for, pod_name

SINCE_S_DEFAULT = 900
SINCE_S_MAX = 900  # how long the stream keeps them
LINES_DEFAULT = 200
LINES_MAX = 2_000
WAIT_S_MAX = 5
ATTEMPTS_MAX = 1_000_000

_OWN_OBJECT = "MusterJob "
"""Start of the title of an object whose pods Muster creates."""

router = APIRouter(tags=["jobs"], responses=refusals(404, 410))


@router.get(
    "/v1/jobs/{job_id}/telemetry",
    summary="Get the readings of a job's devices",
    response_description="Kept readings, of the first 64 nodes of the job",
)
async def job_telemetry(
    context: Context,
    job_id: JobId,
    response: Response,
    since_s: Annotated[
        int, Query(description=f"Seconds to look back, at most {SINCE_S_MAX}"), Count(SINCE_S_MAX)
    ] = SINCE_S_DEFAULT,
) -> JobReadings:
    """Return utilization, temperature, memory and power of every device over the last `since_s` seconds."""
    response.headers["Cache-Control"] = "no-store"
    job = await context.views.job_view(job_id)
    return await _readings(context).of_job(job, since_s=since_s)


async def _wanted(
    group: Annotated[
        int | None, Query(description="Only this task group, by its number from 0"), Count(GROUPS_MAX - 1, least=0)
    ] = None,
    replica: Annotated[
        int | None,
        Query(description="Only the replica with this number in its group, from 0"),
        Count(REPLICAS_MAX - 1, least=0),
    ] = None,
    attempt: Annotated[int | None, Query(description="Only this attempt, from 1"), Count(ATTEMPTS_MAX)] = None,
) -> OutputFilter:
    return OutputFilter(group, replica, attempt)


@router.get(
    "/v1/jobs/{job_id}/output",
    summary="Get the output of a job",
    response_description="The newest lines, oldest first",
    responses=refusals(403),
)
async def job_output(
    caller: Caller,
    context: Context,
    job_id: JobId,
    response: Response,
    *,
    wanted: Annotated[OutputFilter, Depends(_wanted)],
    lines: Annotated[int, Query(description=f"Number of lines, at most {LINES_MAX}"), Count(LINES_MAX)] = LINES_DEFAULT,
    after: Annotated[
        str, Query(description=f"Return the lines after this cursor: `end` of the last page, or `{OLDEST}`")
    ] = "",
    wait_s: Annotated[
        int | None,
        Query(description=f"With `after`: longest wait for a line in seconds, at most {WAIT_S_MAX}"),
        Count(WAIT_S_MAX),
    ] = None,
) -> OutputPage:
    """Return the output; only for callers who act for the job's team, as output may hold anything.

    Without `after`, the newest lines; with it, the oldest lines after the cursor. Output is kept for an hour.
    """
    job = await context.views.job_view(job_id)
    refuse_unless_acting_for(caller, job.team, verb="read the output of jobs")
    response.headers["Cache-Control"] = "no-store"
    if not after:
        return await _readings(context).output(job, lines=lines, wanted=wanted)
    seq = 0 if after == OLDEST else parse_cursor(after).get(output_stream(job.cluster), 0)
    return await _readings(context).next_output(job, after=seq, lines=lines, wait_s=wait_s or 0, wanted=wanted)


@router.get(
    "/v1/jobs/{job_id}/pods",
    summary="Show the pods of a job",
    response_description="The pods of the present attempt",
    responses=refusals(403),
)
async def job_pods(caller: Caller, context: Context, job_id: JobId) -> JobPods:
    """Return names of a job's pods, for `kubectl`; only for callers who act for the job's team. Muster cannot enter
    pods: the cluster decides what a user may do with them."""
    job = await context.views.job_view(job_id)
    refuse_unless_acting_for(caller, job.team, verb="see the pods of jobs")
    if not job.cluster:
        return JobPods(job_id=job.id)
    cluster = await (context.of_cluster(job.cluster) if context.cells else context).scheduler.cluster()
    found = JobPods(job_id=job.id, cluster=job.cluster, backend=cluster.backend, attempt=job.attempt)
    if cluster.backend != KUBERNETES:
        return found
    namespace, is_own = namespace_for(cluster.namespace, job.team), True
    if job.origin:
        namespace, is_own = job.origin.partition(" ")[2].partition("/")[0], job.origin.startswith(_OWN_OBJECT)
    slots = sorted(job.slots, key=lambda slot: (slot.group, slot.replica)) if is_own else ()
    pods = tuple(
        JobPod(
            group=slot.group,
            replica=slot.replica,
            node=slot.node,
            name=pod_name(job.id, attempt=job.attempt, group=slot.group, replica=slot.replica),
        )
        for slot in slots
    )
    return found.model_copy(update={"namespace": namespace, "pods": pods})


def _readings(context: AppContext) -> Readings:
    if context.live is None:
        raise unavailable("this gateway serves no live view")
    return context.live.readings
