"""What GPUs do for jobs and teams."""

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
_Team = Annotated[str, Query(description="Only of this team"), AfterValidator(lambda text: text[:TEAM_CHARS_MAX])]
_Limit = Annotated[int, Query(description=f"How many rows, at most {ROWS_MAX}"), Count(ROWS_MAX)]


@router.get(
    "/v1/jobs/{job_id}/stats",
    summary="What a job did with its GPUs",
    response_description="Over all of its runs, per GPU and over time",
    responses=refusals(404, 410),
)
async def job_stats(context: FirstClusterContext, job_id: JobId) -> JobUse:
    """Busy against SM active, memory, power, energy, idle GPU-hours, and what its owner could do."""
    job = await context.views.job_view(job_id)
    of_its_cluster = context.of_cluster(job.cluster) if job.cluster in context.cells else context
    answer = await of_its_cluster.leaders.ask(SERVICE, "job-use", AskJobUse(job_id=job_id), JobUse)
    whose = {"team": job.team, "queue": answer.queue or job.queue, "name": job.name, "user": job.principal}
    return answer.model_copy(update=whose)


@router.get(
    "/v1/usage/top", summary="Who uses GPUs just now, and how", response_description="As every node was read last"
)
async def top(
    context: FirstClusterContext,
    by: Annotated[
        TopBy, Query(description="What a row stands for: job, team, queue, user or model"), OneOf()
    ] = TopBy.JOB,
    order: Annotated[
        TopOrder, Query(description="gpus, idle, power, busy or sm; the last two the least first"), OneOf()
    ] = TopOrder.GPUS,
    team: _Team = "",
    limit: _Limit = LIMIT_DEFAULT,
) -> Top:
    """Jobs, teams, queues, users or models by their GPUs; exporters that do not answer."""
    return await context.leaders.ask(SERVICE, "top", AskTop(by=by, order=order, team=team, limit=limit), Top)


@router.get(
    "/v1/usage/idle",
    summary="GPUs that are held and do nothing, by team",
    response_description="For longer than the platform bears",
)
async def idle(context: FirstClusterContext, team: _Team = "", limit: _Limit = LIMIT_DEFAULT) -> Idle:
    """The longest idle first."""
    return await context.leaders.ask(SERVICE, "idle", AskIdle(team=team, limit=limit), Idle)


@router.get(
    "/v1/usage/energy",
    summary="What teams or queues used over the last days: energy, GPU-hours, idle GPU-hours",
    response_description="Since the first of these days began, in UTC",
)
async def energy(
    context: FirstClusterContext,
    by: Annotated[EnergyBy, Query(description="What a row stands for: team or queue"), OneOf()] = EnergyBy.TEAM,
    days: Annotated[
        int, Query(description=f"How many, today included, at most {DAYS_MAX}"), Count(DAYS_MAX)
    ] = DAYS_DEFAULT,
    team: _Team = "",
    limit: _Limit = LIMIT_DEFAULT,
) -> Energy:
    """The greatest first; running jobs as they were measured last."""
    return await context.leaders.ask(SERVICE, "energy", AskEnergy(by=by, days=days, team=team, limit=limit), Energy)
