"""Upgrade campaigns: look, plan, start, pause, resume, abort."""

from fastapi import APIRouter, Request, Response

from muster.core import Draft
from muster.gateway.api import answers
from muster.gateway.api.composability import KEY, REASON, TRACE, trace_of
from muster.gateway.api.describe import CLUSTER, describe, list_of, path, reference
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, body_of, context_of, principal_of, reason_of
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import Role
from muster.schemas.base import parse_request
from muster.schemas.campaigns import (
    AskCampaignCheck,
    AskCampaigns,
    AskPreview,
    CampaignCheckAnswer,
    CampaignPreview,
    CampaignsAnswer,
    CampaignView,
)
from muster.schemas.facts.upgrade import CampaignAsk, CampaignChangeRequested, CampaignSpec, CampaignStartRequested

router = APIRouter(tags=["campaigns"])
NAME_CHARS_TOLD = 63

_NAME = path("name", "Name of the campaign")
_ASKED: dict[int, tuple[str, dict[str, object] | None]] = {
    200: ("It is so", reference(CampaignView)),
    202: ("Requested; the campaign as it is now", reference(CampaignView)),
}
_REFUSALS = (401, 403, 404, 409, 422, 503)
_CHANGE = (_NAME, CLUSTER, REASON, KEY, TRACE)
_STATES = {CampaignAsk.PAUSE: ("paused",), CampaignAsk.RESUME: ("going",), CampaignAsk.ABORT: ("aborting", "ended")}


@router.get(
    "/v1/campaigns",
    summary="Upgrade campaigns",
    **describe(
        {200: ("Those that go on, then those that are over", list_of("campaigns", CampaignView))},
        refusals=(401, 404, 503),
        parameters=(CLUSTER,),
    ),
)
async def list_campaigns(request: Request) -> Response:
    """From the upgrader, without their nodes."""
    principal_of(request)
    found = await _campaigns(context_of(request))
    return answers.rows("campaigns", (one.model_dump_json().encode() for one in found))


@router.get(
    "/v1/campaigns/{name}",
    summary="One campaign with its nodes",
    **describe({200: ("As of now", reference(CampaignView))}, refusals=(401, 404, 503), parameters=(_NAME, CLUSTER)),
)
async def one_campaign(request: Request) -> Response:
    """From the upgrader: where each node stands, when its turn is, for whom it waits."""
    principal_of(request)
    name = str(request.path_params["name"])
    found = await _campaign(context_of(request), name)
    if found is None:
        raise not_found("campaign", name[:NAME_CHARS_TOLD])
    return answers.model(found)


@router.post(
    "/v1/campaign-previews",
    summary="What a campaign would come to, beside draining by hand",
    **describe(
        {200: ("Simulated over the jobs that run now", reference(CampaignPreview))},
        refusals=(400, 401, 403, 404, 413, 422, 503),
        parameters=(CLUSTER,),
        body=CampaignSpec,
    ),
)
async def preview(request: Request) -> Response:
    """Operators only, as it costs the upgrader's time. Nothing is started. Jobs are thought to run to their limits."""
    principal, context = principal_of(request), context_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="plan campaigns")
    spec = parse_request(CampaignSpec, await body_of(request))
    found = await context.leaders.ask("upgrader", "preview", AskPreview(spec=spec), CampaignPreview)
    if found.problem:
        raise invalid(found.problem, field=found.field)
    return answers.model(found.model_copy(update={"cluster": context.cluster}))


@router.post(
    "/v1/campaigns",
    summary="Start a campaign",
    **describe(
        {
            200: ("It goes on", reference(CampaignView)),
            202: ("Requested; the upgrader has not answered yet", reference(CampaignSpec)),
        },
        refusals=(400, 401, 403, 404, 413, 422, 503),
        parameters=(CLUSTER, KEY, TRACE),
        body=CampaignSpec,
    ),
)
async def start(request: Request) -> Response:
    """Operators only. Asks the upgrader first whether it can be."""
    principal, context = principal_of(request), context_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="start campaigns")
    spec, key = parse_request(CampaignSpec, await body_of(request)), key_of(request)
    await _check(context, AskCampaignCheck(name=spec.name, ask=CampaignAsk.START.value, spec=spec))
    payload = CampaignStartRequested(spec=spec, principal=principal.name, cluster=context.cluster)
    asked = Draft("campaign", spec.name, "start-requested", payload, trace=trace_of(request, spec.name, key))
    await context.log.request_operation(asked, key=key)

    async def look() -> CampaignView | None:
        found = await _campaign(context, spec.name)
        return found if found is not None and found.spec == spec and found.ended is None else None

    begun = await until_so(context, look)
    return answers.model(begun) if begun is not None else answers.model(spec, status=202)


@router.post(
    "/v1/campaigns/{name}/pause",
    summary="Take no further node",
    **describe(_ASKED, refusals=_REFUSALS, parameters=_CHANGE),
)
async def pause(request: Request) -> Response:
    """Nodes that wait for jobs go back to them; what is being upgraded goes on to its end."""
    return await _change(request, CampaignAsk.PAUSE)


@router.post(
    "/v1/campaigns/{name}/resume",
    summary="Go on after a pause or a stop",
    **describe(_ASKED, refusals=_REFUSALS, parameters=_CHANGE),
)
async def resume(request: Request) -> Response:
    """Nodes that failed are tried again."""
    return await _change(request, CampaignAsk.RESUME)


@router.post(
    "/v1/campaigns/{name}/abort",
    summary="End a campaign before all nodes had their turn",
    **describe(_ASKED, refusals=_REFUSALS, parameters=_CHANGE),
)
async def abort(request: Request) -> Response:
    """As a pause, and it does not go on."""
    return await _change(request, CampaignAsk.ABORT)


async def _change(request: Request, ask: CampaignAsk) -> Response:
    principal, context = principal_of(request), context_of(request)
    refuse_unless(principal, Role.OPERATOR, verb=f"{ask.value} campaigns")
    name, reason, key = str(request.path_params["name"]), reason_of(request), key_of(request)
    before = await _campaign(context, name)
    if before is None:
        raise not_found("campaign", name[:NAME_CHARS_TOLD])
    await _check(context, AskCampaignCheck(name=name, ask=ask.value))
    payload = CampaignChangeRequested(principal=principal.name, reason=reason, cluster=context.cluster)
    asked = Draft("campaign", name, f"{ask.value}-requested", payload, trace=trace_of(request, name, key))
    await context.log.request_operation(asked, key=key)

    async def look() -> CampaignView | None:
        found = await _campaign(context, name)
        return found if found is not None and found.state in _STATES[ask] else None

    stands = await until_so(context, look)
    return answers.model(stands or before, status=202 if stands is None else 200)


async def _check(context: AppContext, ask: AskCampaignCheck) -> None:
    """Raises ProblemError (422) for what would be refused. If nobody answers, the upgrader decides when it folds it."""
    try:
        verdict = await context.leaders.ask("upgrader", "campaign-check", ask, CampaignCheckAnswer)
    except UnreachableError:
        return
    if verdict.problem:
        raise invalid(verdict.problem, field=verdict.field)


async def _campaigns(context: AppContext, name: str = "") -> tuple[CampaignView, ...]:
    answer = await context.leaders.ask("upgrader", "campaigns", AskCampaigns(name=name), CampaignsAnswer)
    return tuple(one.model_copy(update={"cluster": context.cluster}) for one in answer.campaigns)


async def _campaign(context: AppContext, name: str) -> CampaignView | None:
    return next(iter(await _campaigns(context, name)), None)
