"""Clusters: what each is, how full it is, how its API servers are; and the federation of them.

Clusters are drained and resumed, jobs are routed and moved: by operators only, but for looking.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BeforeValidator

from muster.core import Draft
from muster.gateway import answers
from muster.gateway.api.changes import requested_change, until_so
from muster.gateway.api.dependencies import Caller, Context, FirstClusterContext, WholeContext, needs
from muster.gateway.api.jobs import job_to
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, refusals
from muster.gateway.api.parameters import Identified, JsonBody, OperatorRequest, Reason, by_operator, refused
from muster.gateway.authorise import Principal
from muster.gateway.cells import cluster_views
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import Role
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.facts.federation import (
    ClusterDrainRequested,
    ClusterPhase,
    ClusterResumeRequested,
    JobRerouteRequested,
    RoutingChangeRequested,
)
from muster.schemas.members import (
    AskAssignment,
    AskFederation,
    AskRoutesCheck,
    AssignmentView,
    FederationView,
    MemberView,
    RoutesCheckAnswer,
    RoutesView,
)
from muster.schemas.routing import RoutingPolicy
from muster.schemas.views import JobView

router = APIRouter(tags=["clusters"])

federation_router = APIRouter(tags=["federation"], responses=refusals())
NAME_CHARS_TOLD = 63
SERVICE = "federation"

_CHANGED = accepted("Requested; the cluster as it is now", MemberView) | refusals(403, 404)
_DRAINED = frozenset({ClusterPhase.DRAINING, ClusterPhase.DRAINED})
_RESUMED = frozenset({ClusterPhase.ACTIVE})


@router.get(
    "/v1/apiserver",
    summary="The guard's report on the API servers",
    response_description="As of its newest look",
    responses=refusals(404),
)
async def report(context: FirstClusterContext) -> ApiServerReport:
    """From the guard: memory of each replica, who lists, flow control, advice. A simulated cluster has none of it."""
    return await context.guard.report()


@router.get(
    "/v1/clusters",
    summary="The clusters that this gateway serves",
    response_model=listing("clusters", ClusterView),
    response_description="By name",
    responses=refusals(),
)
async def list_clusters(_: Caller, context: WholeContext) -> dict[str, list[ClusterView]]:
    """From the schedulers, as they know it now: who picks GPUs, how parts of one are had, which APIs are lacking; and
    from the federation whether it gives them jobs.
    """
    found = await cluster_views(context.cells) if len(context.cells) > 1 else (await context.scheduler.cluster(),)
    found = await _with_states(context, found)
    return {"clusters": sorted(found, key=lambda one: one.name)}


async def _with_states(context: AppContext, found: Sequence[ClusterView]) -> tuple[ClusterView, ...]:
    """Where the federation has them; as they are if it does not answer."""
    try:
        told = await context.leaders.ask("federation", "federation", AskFederation(), FederationView)
    except UnreachableError:
        return tuple(found)
    states = {member.name: member.state.value for member in told.clusters}
    return tuple(one.model_copy(update={"state": states.get(one.name, one.state)}) for one in found)


def _version(given: object) -> int:
    text = str(given)
    if not text.isdecimal():
        raise refused(f"{text[:NAME_CHARS_TOLD]!r} is no version", cure="Give the number of GET /v1/routes.")
    return int(text)


async def _path_cluster(
    _: Caller, context: WholeContext, cluster: Annotated[str, Path(description="Name of the cluster")]
) -> MemberView:
    return await _member(context, cluster)


_Cluster = Annotated[MemberView, Depends(_path_cluster)]
_ClusterRequest = Annotated[OperatorRequest, by_operator("drain and resume clusters")]


@federation_router.get(
    "/v1/federation",
    summary="Clusters as the federation has them, and jobs that wait for one",
    response_description="As of now",
)
async def federation(_: Caller, context: WholeContext) -> FederationView:
    """States, what each was given, when it was heard last; and by team and rule what waits, with the reason."""
    return await _federation(context)


@federation_router.post(
    "/v1/clusters/{cluster}/drain",
    summary="Give a cluster no new jobs, and move those that have not started",
    response_description="It is so",
    responses=_CHANGED,
)
async def drain(
    context: WholeContext,
    before: _Cluster,
    asked: _ClusterRequest,
    response: Response,
    to: Annotated[
        str,
        Query(description="Clusters that take its jobs, in order, separated by commas; by default as the rules say"),
    ] = "",
) -> MemberView:
    """What runs there finishes there. Jobs keep their ids and their age; nobody has to submit again."""
    names = tuple(name for name in (part.strip() for part in to.split(",")) if name)
    known = [one.name for one in (await _federation(context)).clusters]
    for name in names:
        if name not in known or name == before.name:
            cure = f"Name others: {', '.join(one for one in known if one != before.name) or 'there is none'}."
            raise invalid(f"jobs of {before.name} cannot go to {name[:NAME_CHARS_TOLD]}", field="to", cure=cure)
    payload = ClusterDrainRequested(principal=asked.principal, reason=asked.reason, to=names)
    draft, look = Draft("cluster", before.name, "drain-requested", payload), _look(context, before, _DRAINED)
    return await requested_change(context, asked, draft, look, before=before, response=response)


@federation_router.post(
    "/v1/clusters/{cluster}/resume",
    summary="Give a cluster jobs again",
    response_description="It is so",
    responses=_CHANGED,
)
async def resume(context: WholeContext, before: _Cluster, asked: _ClusterRequest, response: Response) -> MemberView:
    """Jobs that went elsewhere stay there. One that nobody drains stays as it is, and a fact says so."""
    payload = ClusterResumeRequested(principal=asked.principal, reason=asked.reason)
    draft, look = Draft("cluster", before.name, "resume-requested", payload), _look(context, before, _RESUMED)
    return await requested_change(context, asked, draft, look, before=before, response=response)


def _look(
    context: AppContext, before: MemberView, becomes: frozenset[ClusterPhase]
) -> Callable[[], Awaitable[MemberView | None]]:
    async def look() -> MemberView | None:
        found = await _member(context, before.name)
        return found if found.state in becomes else None

    return look


@federation_router.get("/v1/routes", summary="Where jobs go", response_description="The policy that stands")
async def routes(_: Caller, context: WholeContext) -> RoutesView:
    """Rules, the first that matches counts, and the teams' limits over all clusters."""
    return await context.leaders.ask(SERVICE, "routes", AskFederation(), RoutesView)


@federation_router.put(
    "/v1/routes",
    summary="Have jobs go elsewhere",
    response_model=RoutesView,
    response_description="It stands",
    responses=accepted("Requested; the federation has not answered yet", RoutingPolicy) | refusals(*OF_BODIES, 403),
)
async def set_routes(
    context: WholeContext,
    operator: Annotated[Principal, needs(Role.OPERATOR, verb="change where jobs go")],
    policy: Annotated[RoutingPolicy, Depends(JsonBody(RoutingPolicy))],
    asked: Identified,
    based_on: Annotated[
        int,
        Query(description="Version that it was made of; if another one stands it is refused"),
        BeforeValidator(_version),
    ] = 0,
) -> RoutesView | Response:
    """Counts for jobs that have no cluster yet; nothing else is moved."""
    question = AskRoutesCheck(policy=policy, based_on=based_on)
    verdict = await context.leaders.ask(SERVICE, "routes-check", question, RoutesCheckAnswer)
    if verdict.field:
        raise invalid(verdict.reason, field=verdict.field)
    payload = RoutingChangeRequested(policy=policy, principal=operator.name, based_on=based_on)
    draft = Draft("routing", "policy", "change-requested", payload, trace=asked.trace("routing"))
    await context.log.request_operation(draft, key=asked.key)

    async def look() -> RoutesView | None:
        found = await context.leaders.ask(SERVICE, "routes", AskFederation(), RoutesView)
        return found if found.policy == policy and found.version else None

    return await until_so(context, look) or answers.model(policy, status=202)


@federation_router.get(
    "/v1/jobs/{job_id}/assignment",
    summary="Which cluster has a job, and why",
    response_description="As of now",
    responses=refusals(404),
)
async def assignment(
    _: Caller, context: WholeContext, job_id: Annotated[str, Path(description="Id of the job")]
) -> AssignmentView:
    """From the federation: by which rule it went there, or why it waits for a cluster."""
    found = await _assignment(context, job_id)
    if not found.known:
        raise not_found("job", job_id[:NAME_CHARS_TOLD])
    return found


@federation_router.post(
    "/v1/jobs/{job_id}/reroute",
    status_code=202,
    summary="Move a job that has not started to another cluster",
    response_description="Requested; where it is now",
    responses=refusals(403, 404, 409, 410),
)
async def reroute(
    caller: Caller,
    context: Context,
    *,
    job: Annotated[JobView, job_to("reroute jobs")],
    asked: Identified,
    reason: Reason = "",
    to: Annotated[str, Query(description="The cluster; by default another one, as the rules say")] = "",
) -> AssignmentView:
    """It keeps its id and its age. One that has started, or is pinned, stays, and a fact says so."""
    known = [one.name for one in (await _federation(context)).clusters]
    if to and to not in known:
        raise invalid(
            f"there is no cluster {to[:NAME_CHARS_TOLD]}", field="to", cure=f"Name one of {', '.join(known)}."
        )
    payload = JobRerouteRequested(principal=caller.name, reason=reason, to=to)
    draft = Draft("job", job.id, "reroute-requested", payload, trace=asked.trace(job.id))
    await context.log.request_operation(draft, key=asked.key)
    try:
        return await _assignment(context, job.id)
    except UnreachableError:
        return AssignmentView()


async def _federation(context: AppContext) -> FederationView:
    return await context.leaders.ask(SERVICE, "federation", AskFederation(), FederationView)


async def _assignment(context: AppContext, job_id: str) -> AssignmentView:
    return await context.leaders.ask(SERVICE, "assignment", AskAssignment(job_id=job_id), AssignmentView)


async def _member(context: AppContext, name: str) -> MemberView:
    """Raises ProblemError (404), UnreachableError."""
    found = next((one for one in (await _federation(context)).clusters if one.name == name), None)
    if found is None:
        raise not_found("cluster", name[:NAME_CHARS_TOLD])
    return found
