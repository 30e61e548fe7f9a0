"""Routes of GPU usage by jobs and teams."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AfterValidator

from muster.gateway.api.dependencies import FirstClusterContext
from muster.gateway.api.openapi import refusals
from muster.gateway.api.parameters import Count, JobId, OneOf
from muster.schemas.usage import AskEnergy, AskIdle, AskJobUse, AskTop, Energy, Idle, JobUse, Top
from muster.schemas.usage_words import DAYS_MAX, ROWS_MAX, EnergyBy, TopBy, TopOrder

SERVICE = "telemetry"
TEAM_CHARS_MAX = 63
LIMIT_DEFAULT = 20
DAYS_DEFAULT = 30


async def _no_store(response: Response) -> None:
    response.headers["Cache-Control"] = "no-store"


router = APIRouter(tags=["usage"], responses=refusals(404), dependencies=[Depends(_no_store)])
_Team = Annotated[str, Query(description="Only this team"), AfterValidator(lambda text: text[:TEAM_CHARS_MAX])]
_Limit = Annotated[int, Query(description=f"Number of rows, at most {ROWS_MAX}"), Count(ROWS_MAX)]


@router.get(
    "/v1/jobs/{job_id}/stats",
    summary="Show the GPU usage of a job",
    response_description="Over all attempts, per GPU and over time",
    responses=refusals(404, 410),
)
async def job_stats(context: FirstClusterContext, job_id: JobId) -> JobUse:
    """Return busy and SM activity, memory, power, energy, idle GPU-hours, and advice for the owner."""
    job = await context.views.job_view(job_id)
    of_its_cluster = context.of_cluster(job.cluster) if job.cluster in context.cells else context
    answer = await of_its_cluster.leaders.ask(SERVICE, "job-use", AskJobUse(job_id=job_id), JobUse)
    whose = {"team": job.team, "queue": answer.queue or job.queue, "name": job.name, "user": job.principal}
    return answer.model_copy(update=whose)


@router.get(
    "/v1/usage/top", summary="Show the current GPU usage", response_description="As of the last sample of every node"
)
async def top(
    context: FirstClusterContext,
    by: Annotated[TopBy, Query(description="Group rows by job, team, queue, user or model"), OneOf()] = TopBy.JOB,
    order: Annotated[
        TopOrder, Query(description="Sort by gpus, idle, power, busy or sm; busy and sm in ascending order"), OneOf()
    ] = TopOrder.GPUS,
    team: _Team = "",
    limit: _Limit = LIMIT_DEFAULT,
) -> Top:
    """Return jobs, teams, queues, users or models by their GPUs, and exporters that do not answer."""
    return await context.leaders.ask(SERVICE, "top", AskTop(by=by, order=order, team=team, limit=limit), Top)


@router.get(
    "/v1/usage/idle",
    summary="List allocated but idle GPUs, by team",
    response_description="GPUs idle for longer than the platform's limit",
)
async def idle(context: FirstClusterContext, team: _Team = "", limit: _Limit = LIMIT_DEFAULT) -> Idle:
    """Return the idle GPUs, the longest idle first."""
    return await context.leaders.ask(SERVICE, "idle", AskIdle(team=team, limit=limit), Idle)


@router.get(
    "/v1/usage/energy",
    summary="Show energy, GPU-hours and idle GPU-hours of teams or queues",
    response_description="Since the start of the first day, in UTC",
)
async def energy(
    context: FirstClusterContext,
    by: Annotated[EnergyBy, Query(description="Group rows by team or queue"), OneOf()] = EnergyBy.TEAM,
    days: Annotated[
        int, Query(description=f"Number of days including today, at most {DAYS_MAX}"), Count(DAYS_MAX)
    ] = DAYS_DEFAULT,
    team: _Team = "",
    limit: _Limit = LIMIT_DEFAULT,
) -> Energy:
    """Return the usage, the greatest first; running jobs count as of their last sample."""
    return await context.leaders.ask(SERVICE, "energy", AskEnergy(by=by, days=days, team=team, limit=limit), Energy)
