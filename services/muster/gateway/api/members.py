"""The federation: clusters are drained and resumed, jobs are routed and moved. Operators only, but for looking."""

from fastapi import APIRouter, Request, Response

from muster.core import Draft
from muster.gateway.api import answers
from muster.gateway.api.composability import KEY, REASON, TRACE, trace_of
from muster.gateway.api.describe import describe, path, query, reference
from muster.gateway.api.job_actions import job_for
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, body_of, principal_of, reason_of, whole_context_of
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import Role
from muster.schemas.base import Payload, parse_request
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

router = APIRouter(tags=["federation"])
NAME_CHARS_TOLD = 63
SERVICE = "federation"

_CLUSTER = path("cluster", "Name of the cluster")
_TO = query("to", "Clusters that take its jobs, in order, separated by commas; by default as the rules say")
_JOB_ID = path("job_id", "Id of the job")
_ASKED: dict[int, tuple[str, dict[str, object] | None]] = {
    200: ("It is so", reference(MemberView)),
    202: ("Requested; the cluster as it is now", reference(MemberView)),
}
_REFUSALS = (401, 403, 404, 422, 503)


@router.get(
    "/v1/federation",
    summary="Clusters as the federation has them, and jobs that wait for one",
    **describe({200: ("As of now", reference(FederationView))}, refusals=(401, 503)),
)
async def federation(request: Request) -> Response:
    """States, what each was given, when it was heard last; and by team and rule what waits, with the reason."""
    principal_of(request)
    return answers.model(await _federation(whole_context_of(request)))


@router.post(
    "/v1/clusters/{cluster}/drain",
    summary="Give a cluster no new jobs, and move those that have not started",
    **describe(_ASKED, refusals=_REFUSALS, parameters=(_CLUSTER, _TO, REASON, KEY, TRACE)),
)
async def drain(request: Request) -> Response:
    """What runs there finishes there. Jobs keep their ids and their age; nobody has to submit again."""
    principal, to = principal_of(request), _names(request.query_params.get("to", ""))
    context = whole_context_of(request)
    before = await _member(context, request)
    known = [one.name for one in (await _federation(context)).clusters]
    for name in to:
        if name not in known or name == before.name:
            cure = f"Name others: {', '.join(one for one in known if one != before.name) or 'there is none'}."
            raise invalid(f"jobs of {before.name} cannot go to {name[:NAME_CHARS_TOLD]}", field="to", cure=cure)
    payload = ClusterDrainRequested(principal=principal.name, reason=reason_of(request), to=to)
    return await _ask(request, before, "drain-requested", payload, _DRAINED)


@router.post(
    "/v1/clusters/{cluster}/resume",
    summary="Give a cluster jobs again",
    **describe(_ASKED, refusals=_REFUSALS, parameters=(_CLUSTER, REASON, KEY, TRACE)),
)
async def resume(request: Request) -> Response:
    """Jobs that went elsewhere stay there. One that nobody drains stays as it is, and a fact says so."""
    principal = principal_of(request)
    before = await _member(whole_context_of(request), request)
    payload = ClusterResumeRequested(principal=principal.name, reason=reason_of(request))
    return await _ask(request, before, "resume-requested", payload, _RESUMED)


_DRAINED = frozenset({ClusterPhase.DRAINING, ClusterPhase.DRAINED})
_RESUMED = frozenset({ClusterPhase.ACTIVE})


async def _ask(
    request: Request, before: MemberView, name: str, payload: Payload, becomes: frozenset[ClusterPhase]
) -> Response:
    refuse_unless(principal_of(request), Role.OPERATOR, verb="drain and resume clusters")
    context, key = whole_context_of(request), key_of(request)
    asked = Draft("cluster", before.name, name, payload, trace=trace_of(request, before.name, key))
    await context.log.request_operation(asked, key=key)

    async def look() -> MemberView | None:
        found = await _member(context, request)
        return found if found.state in becomes else None

    stands = await until_so(context, look)
    return answers.model(stands or before, status=202 if stands is None else 200)


@router.get(
    "/v1/routes",
    summary="Where jobs go",
    **describe({200: ("The policy that stands", reference(RoutesView))}, refusals=(401, 503)),
)
async def routes(request: Request) -> Response:
    """Rules, the first that matches counts, and the teams' limits over all clusters."""
    principal_of(request)
    return answers.model(await whole_context_of(request).leaders.ask(SERVICE, "routes", AskFederation(), RoutesView))


@router.put(
    "/v1/routes",
    summary="Have jobs go elsewhere",
    **describe(
        {
            200: ("It stands", reference(RoutesView)),
            202: ("Requested; the federation has not answered yet", reference(RoutingPolicy)),
        },
        refusals=(400, 401, 403, 413, 422, 503),
        parameters=(query("based_on", "Version that it was made of; if another one stands it is refused"), KEY, TRACE),
        body=RoutingPolicy,
    ),
)
async def set_routes(request: Request) -> Response:
    """Counts for jobs that have no cluster yet; nothing else is moved."""
    principal, context = principal_of(request), whole_context_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="change where jobs go")
    policy, based_on = parse_request(RoutingPolicy, await body_of(request)), _version(request)
    verdict = await context.leaders.ask(
        SERVICE, "routes-check", AskRoutesCheck(policy=policy, based_on=based_on), RoutesCheckAnswer
    )
    if verdict.field:
        raise invalid(verdict.reason, field=verdict.field)
    key = key_of(request)
    payload = RoutingChangeRequested(policy=policy, principal=principal.name, based_on=based_on)
    asked = Draft("routing", "policy", "change-requested", payload, trace=trace_of(request, "routing", key))
    await context.log.request_operation(asked, key=key)

    async def look() -> RoutesView | None:
        found = await context.leaders.ask(SERVICE, "routes", AskFederation(), RoutesView)
        return found if found.policy == policy and found.version else None

    stands = await until_so(context, look)
    return answers.model(stands) if stands is not None else answers.model(policy, status=202)


@router.get(
    "/v1/jobs/{job_id}/assignment",
    summary="Which cluster has a job, and why",
    **describe({200: ("As of now", reference(AssignmentView))}, refusals=(401, 404, 503), parameters=(_JOB_ID,)),
)
async def assignment(request: Request) -> Response:
    """From the federation: by which rule it went there, or why it waits for a cluster."""
    principal_of(request)
    context = whole_context_of(request)
    found = await _assignment(context, str(request.path_params["job_id"]))
    if not found.known:
        raise not_found("job", str(request.path_params["job_id"])[:NAME_CHARS_TOLD])
    return answers.model(found)


@router.post(
    "/v1/jobs/{job_id}/reroute",
    summary="Move a job that has not started to another cluster",
    **describe(
        {202: ("Requested; where it is now", reference(AssignmentView))},
        refusals=(401, 403, 404, 409, 410, 422, 503),
        parameters=(_JOB_ID, query("to", "The cluster; by default another one, as the rules say"), REASON, KEY, TRACE),
    ),
)
async def reroute(request: Request) -> Response:
    """It keeps its id and its age. One that has started, or is pinned, stays, and a fact says so."""
    principal = principal_of(request)
    context, job = await job_for(request, verb="reroute jobs")
    to = request.query_params.get("to", "")
    known = [one.name for one in (await _federation(context)).clusters]
    if to and to not in known:
        raise invalid(
            f"there is no cluster {to[:NAME_CHARS_TOLD]}", field="to", cure=f"Name one of {', '.join(known)}."
        )
    key = key_of(request)
    payload = JobRerouteRequested(principal=principal.name, reason=reason_of(request), to=to)
    asked = Draft("job", job.id, "reroute-requested", payload, trace=trace_of(request, job.id, key))
    await context.log.request_operation(asked, key=key)
    try:
        stands = await _assignment(context, job.id)
    except UnreachableError:
        stands = AssignmentView()
    return answers.model(stands, status=202)


async def _federation(context: AppContext) -> FederationView:
    return await context.leaders.ask(SERVICE, "federation", AskFederation(), FederationView)


async def _assignment(context: AppContext, job_id: str) -> AssignmentView:
    return await context.leaders.ask(SERVICE, "assignment", AskAssignment(job_id=job_id), AssignmentView)


async def _member(context: AppContext, request: Request) -> MemberView:
    """The cluster of the path. Raises ProblemError (404), UnreachableError."""
    name = str(request.path_params["cluster"])
    found = next((one for one in (await _federation(context)).clusters if one.name == name), None)
    if found is None:
        raise not_found("cluster", name[:NAME_CHARS_TOLD])
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _version(request: Request) -> int:
    """Raises ProblemError (422) for what is no number."""
    said = request.query_params.get("based_on", "0")
    if not said.isdecimal():
        raise invalid(
            f"{said[:NAME_CHARS_TOLD]!r} is no version", field="based_on", cure="Give the number of GET /v1/routes."
        )
    return int(said)
