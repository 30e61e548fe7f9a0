"""What GPUs do for jobs and teams."""

from enum import StrEnum
from typing import TypeVar

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import CLUSTER, describe, path, query, reference
from muster.gateway.context import context_of, count_of, job_id_of, principal_of
from muster.gateway.problems import invalid
from muster.schemas.usage import AskEnergy, AskIdle, AskJobUse, AskTop, Energy, Idle, JobUse, Top
from muster.schemas.usage_words import DAYS_MAX, ROWS_MAX, EnergyBy, TopBy, TopOrder

router = APIRouter(tags=["usage"])
SERVICE = "telemetry"
TEAM_CHARS_MAX = 63
LIMIT_DEFAULT = 20
DAYS_DEFAULT = 30
_NO_STORE = {"Cache-Control": "no-store"}
_TEAM = query("team", "Only of this team")
_LIMIT = query("limit", f"How many rows, at most {ROWS_MAX}", kind="integer")
Choice = TypeVar("Choice", bound=StrEnum)


@router.get(
    "/v1/jobs/{job_id}/stats",
    summary="What a job did with its GPUs",
    **describe(
        {200: ("Over all of its runs, per GPU and over time", reference(JobUse))},
        refusals=(401, 404, 410, 422, 503),
        parameters=(path("job_id", "Id of the job"), CLUSTER),
    ),
)
async def job_stats(request: Request) -> Response:
    """Busy against SM active, memory, power, energy, idle GPU-hours, and what its owner could do."""
    principal_of(request)
    context, job_id = context_of(request), job_id_of(request)
    job = await context.views.job_view(job_id)
    of_its_cluster = context.of_cluster(job.cluster) if job.cluster in context.cells else context
    answer = await of_its_cluster.leaders.ask(SERVICE, "job-use", AskJobUse(job_id=job_id), JobUse)
    whose = {"team": job.team, "queue": answer.queue or job.queue, "name": job.name, "user": job.principal}
    return answers.model(answer.model_copy(update=whose), headers=_NO_STORE)


@router.get(
    "/v1/usage/top",
    summary="Who uses GPUs just now, and how",
    **describe(
        {200: ("As every node was read last", reference(Top))},
        refusals=(401, 404, 422, 503),
        parameters=(
            query("by", "What a row stands for: job, team, queue, user or model"),
            query("order", "gpus, idle, power, busy or sm; the last two the least first"),
            _TEAM,
            _LIMIT,
            CLUSTER,
        ),
    ),
)
async def top(request: Request) -> Response:
    """Jobs, teams, queues, users or models by their GPUs; exporters that do not answer."""
    principal_of(request)
    question = AskTop(
        by=_choice(request, "by", TopBy.JOB),
        order=_choice(request, "order", TopOrder.GPUS),
        team=_team(request),
        limit=count_of(request, name="limit", default=LIMIT_DEFAULT, most=ROWS_MAX),
    )
    return answers.model(await context_of(request).leaders.ask(SERVICE, "top", question, Top), headers=_NO_STORE)


@router.get(
    "/v1/usage/idle",
    summary="GPUs that are held and do nothing, by team",
    **describe(
        {200: ("For longer than the platform bears", reference(Idle))},
        refusals=(401, 404, 422, 503),
        parameters=(_TEAM, _LIMIT, CLUSTER),
    ),
)
async def idle(request: Request) -> Response:
    """The longest idle first."""
    principal_of(request)
    limit = count_of(request, name="limit", default=LIMIT_DEFAULT, most=ROWS_MAX)
    question = AskIdle(team=_team(request), limit=limit)
    return answers.model(await context_of(request).leaders.ask(SERVICE, "idle", question, Idle), headers=_NO_STORE)


@router.get(
    "/v1/usage/energy",
    summary="What teams or queues used over the last days: energy, GPU-hours, idle GPU-hours",
    **describe(
        {200: ("Since the first of these days began, in UTC", reference(Energy))},
        refusals=(401, 404, 422, 503),
        parameters=(
            query("by", "What a row stands for: team or queue"),
            query("days", f"How many, today included, at most {DAYS_MAX}", kind="integer"),
            _TEAM,
            _LIMIT,
            CLUSTER,
        ),
    ),
)
async def energy(request: Request) -> Response:
    """The greatest first; running jobs as they were measured last."""
    principal_of(request)
    question = AskEnergy(
        by=_choice(request, "by", EnergyBy.TEAM),
        days=count_of(request, name="days", default=DAYS_DEFAULT, most=DAYS_MAX),
        team=_team(request),
        limit=count_of(request, name="limit", default=LIMIT_DEFAULT, most=ROWS_MAX),
    )
    return answers.model(await context_of(request).leaders.ask(SERVICE, "energy", question, Energy), headers=_NO_STORE)


def _choice(request: Request, name: str, default: Choice) -> Choice:
    """One of the words that there are. Raises ProblemError (422)."""
    text = request.query_params.get(name, default.value)
    try:
        return type(default)(text)
    except ValueError:
        words = ", ".join(one.value for one in type(default))
        raise invalid(f"{text[:20]!r} is none of {words}", field=name, cure=f"Send one of {words}.") from None


def _team(request: Request) -> str:
    return request.query_params.get("team", "")[:TEAM_CHARS_MAX]
