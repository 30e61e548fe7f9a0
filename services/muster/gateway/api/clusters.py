"""Routes of clusters (state, use, API servers) and of their federation.

Only operators may drain and resume clusters, and route and reroute jobs.
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
    summary="Show the guard's report on the API servers",
    response_description="The newest report",
    responses=refusals(404),
)
async def report(context: FirstClusterContext) -> ApiServerReport:
    """Return the guard's report: memory of each replica, lists by client, flow control, advice. A simulated cluster
    has no API server to report on."""
    return await context.guard.report()


@router.get(
    "/v1/clusters",
    summary="List the clusters that this gateway serves",
    response_model=listing("clusters", ClusterView),
    response_description="By name",
    responses=refusals(),
)
async def list_clusters(_: Caller, context: WholeContext) -> dict[str, list[ClusterView]]:
    """List the clusters as their schedulers report them, with their state in the federation. A scheduler reports who
    picks GPUs, how fractions of a GPU are allocated, and which APIs are missing."""
    found = await cluster_views(context.cells) if len(context.cells) > 1 else (await context.scheduler.cluster(),)
    found = await _with_states(context, found)
    return {"clusters": sorted(found, key=lambda one: one.name)}


async def _with_states(context: AppContext, found: Sequence[ClusterView]) -> tuple[ClusterView, ...]:
    """Add the federation's state to each cluster; without an answer, return the clusters unchanged."""
    try:
        told = await context.leaders.ask("federation", "federation", AskFederation(), FederationView)
    except UnreachableError:
        return tuple(found)
    states = {member.name: member.state.value for member in told.clusters}
    return tuple(one.model_copy(update={"state": states.get(one.name, one.state)}) for one in found)


def _version(given: object) -> int:
    text = str(given)
    if not text.isdecimal():
        raise refused(
            f"{text[:NAME_CHARS_TOLD]!r} is not a version", cure="Use the version that GET /v1/routes returns."
        )
    return int(text)


async def _path_cluster(
    _: Caller, context: WholeContext, cluster: Annotated[str, Path(description="Name of the cluster")]
) -> MemberView:
    return await _member(context, cluster)


_Cluster = Annotated[MemberView, Depends(_path_cluster)]
_ClusterRequest = Annotated[OperatorRequest, by_operator("drain and resume clusters")]


@federation_router.get(
    "/v1/federation",
    summary="Show the federation: clusters, and jobs that wait for a cluster",
    response_description="The current state",
)
async def federation(_: Caller, context: WholeContext) -> FederationView:
    """Return each cluster's state, assigned jobs and last contact; and the waiting jobs by team, rule and reason."""
    return await _federation(context)


@federation_router.post(
    "/v1/clusters/{cluster}/drain",
    summary="Drain a cluster: assign no new jobs, and reroute jobs that have not started",
    response_description="The cluster is draining",
    responses=_CHANGED,
)
async def drain(
    context: WholeContext,
    before: _Cluster,
    asked: _ClusterRequest,
    response: Response,
    to: Annotated[
        str,
        Query(description="Target clusters in order of preference, separated by commas; by default as the rules say"),
    ] = "",
) -> MemberView:
    """Drain a cluster. Running jobs finish there; rerouted jobs keep their ids and their age."""
    names = tuple(name for name in (part.strip() for part in to.split(",")) if name)
    known = [one.name for one in (await _federation(context)).clusters]
    for name in names:
        if name not in known or name == before.name:
            cure = f"Use other clusters: {', '.join(one for one in known if one != before.name) or 'there are none'}."
            raise invalid(f"jobs of {before.name} cannot go to {name[:NAME_CHARS_TOLD]}", field="to", cure=cure)
    payload = ClusterDrainRequested(principal=asked.principal, reason=asked.reason, to=names)
    draft, look = Draft("cluster", before.name, "drain-requested", payload), _look(context, before, _DRAINED)
    return await requested_change(context, asked, draft, look, before=before, response=response)


@federation_router.post(
    "/v1/clusters/{cluster}/resume",
    summary="Resume a cluster: assign jobs to it again",
    response_description="The cluster is active",
    responses=_CHANGED,
)
async def resume(context: WholeContext, before: _Cluster, asked: _ClusterRequest, response: Response) -> MemberView:
    """Resume a cluster. Rerouted jobs stay where they are; a cluster that is not drained does not change."""
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


@federation_router.get("/v1/routes", summary="Show the routing policy", response_description="The current policy")
async def routes(_: Caller, context: WholeContext) -> RoutesView:
    """Return the routing rules, of which the first match applies, and the teams' limits over all clusters."""
    return await context.leaders.ask(SERVICE, "routes", AskFederation(), RoutesView)


@federation_router.put(
    "/v1/routes",
    summary="Replace the routing policy",
    response_model=RoutesView,
    response_description="The policy applies",
    responses=accepted("Requested; the federation has not answered yet", RoutingPolicy) | refusals(*OF_BODIES, 403),
)
async def set_routes(
    context: WholeContext,
    operator: Annotated[Principal, needs(Role.OPERATOR, verb="change where jobs go")],
    policy: Annotated[RoutingPolicy, Depends(JsonBody(RoutingPolicy))],
    asked: Identified,
    based_on: Annotated[
        int,
        Query(description="Version that the policy is derived from; refused if another version applies"),
        BeforeValidator(_version),
    ] = 0,
) -> RoutesView | Response:
    """Replace the routing policy. It applies to jobs without a cluster; other jobs are not moved."""
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
    summary="Show the cluster of a job, and the reason",
    response_description="The current assignment",
    responses=refusals(404),
)
async def assignment(
    _: Caller, context: WholeContext, job_id: Annotated[str, Path(description="Id of the job")]
) -> AssignmentView:
    """Return a job's assignment from the federation: the rule that chose the cluster, or why the job waits."""
    found = await _assignment(context, job_id)
    if not found.known:
        raise not_found("job", job_id[:NAME_CHARS_TOLD])
    return found


@federation_router.post(
    "/v1/jobs/{job_id}/reroute",
    status_code=202,
    summary="Reroute a job that has not started to another cluster",
    response_description="Requested; the current assignment",
    responses=refusals(403, 404, 409, 410),
)
async def reroute(
    caller: Caller,
    context: Context,
    *,
    job: Annotated[JobView, job_to("reroute jobs")],
    asked: Identified,
    reason: Reason = "",
    to: Annotated[str, Query(description="Target cluster; by default the routing rules choose another one")] = "",
) -> AssignmentView:
    """Reroute a job, which keeps its id and its age. A job that has started or is pinned does not move."""
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
    """Return a cluster of the federation. Raises ProblemError (404), UnreachableError."""
    found = next((one for one in (await _federation(context)).clusters if one.name == name), None)
    if found is None:
        raise not_found("cluster", name[:NAME_CHARS_TOLD])
    return found
