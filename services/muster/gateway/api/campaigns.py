"""Routes of upgrade campaigns: show, preview, start, pause, resume, abort."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from muster.core import Draft
from muster.gateway import answers
from muster.gateway.api.changes import requested_change, until_so
from muster.gateway.api.dependencies import FirstClusterContext, needs
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, refusals
from muster.gateway.api.parameters import Identified, JsonBody, OperatorRequest, by_operator
from muster.gateway.authorise import Principal
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import Role
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

router = APIRouter(tags=["campaigns"], responses=refusals(404))
NAME_CHARS_TOLD = 63

_Name = Annotated[str, Path(description="Name of the campaign")]
_Spec = Annotated[CampaignSpec, Depends(JsonBody(CampaignSpec))]
_CHANGED = accepted("Requested; the current campaign", CampaignView) | refusals(403, 409)


@router.get(
    "/v1/campaigns",
    summary="List upgrade campaigns",
    response_model=listing("campaigns", CampaignView),
    response_description="Active campaigns, then ended campaigns",
)
async def list_campaigns(context: FirstClusterContext) -> dict[str, tuple[CampaignView, ...]]:
    """List the campaigns from the upgrader, without their nodes."""
    return {"campaigns": await _campaigns(context)}


@router.get(
    "/v1/campaigns/{name}", summary="Show a campaign with its nodes", response_description="The current campaign"
)
async def one_campaign(context: FirstClusterContext, name: _Name) -> CampaignView:
    """Return a campaign from the upgrader: each node's state, its expected time, and the jobs it waits for."""
    return await _known_campaign(context, name)


@router.post(
    "/v1/campaign-previews",
    summary="Simulate a campaign, and compare it with draining by hand",
    response_description="A simulation with the jobs that run now",
    responses=refusals(*OF_BODIES, 403),
)
async def preview(
    context: FirstClusterContext, _: Annotated[Principal, needs(Role.OPERATOR, verb="plan campaigns")], spec: _Spec
) -> CampaignPreview:
    """Simulate a campaign; operators only, as it costs the upgrader's time. Jobs are assumed to run to their limits."""
    found = await context.leaders.ask("upgrader", "preview", AskPreview(spec=spec), CampaignPreview)
    if found.problem:
        raise invalid(found.problem, field=found.field)
    return found.model_copy(update={"cluster": context.cluster})


@router.post(
    "/v1/campaigns",
    summary="Start a campaign",
    response_model=CampaignView,
    response_description="The campaign has started",
    responses=accepted("Requested; the upgrader has not answered yet", CampaignSpec) | refusals(*OF_BODIES, 403),
)
async def start(
    context: FirstClusterContext,
    operator: Annotated[Principal, needs(Role.OPERATOR, verb="start campaigns")],
    spec: _Spec,
    asked: Identified,
) -> CampaignView | Response:
    """Start a campaign; operators only. The upgrader checks it first."""
    await _check(context, AskCampaignCheck(name=spec.name, ask=CampaignAsk.START.value, spec=spec))
    payload = CampaignStartRequested(spec=spec, principal=operator.name, cluster=context.cluster)
    draft = Draft("campaign", spec.name, "start-requested", payload, trace=asked.trace(spec.name))
    await context.log.request_operation(draft, key=asked.key)

    async def look() -> CampaignView | None:
        found = await _campaign(context, spec.name)
        return found if found is not None and found.spec == spec and found.ended is None else None

    return await until_so(context, look) or answers.model(spec, status=202)


def _add_change(ask: CampaignAsk, *becomes: str, summary: str, description: str) -> None:
    """Add the route of a campaign change. becomes: the states that show that the change was made."""

    @router.post(
        f"/v1/campaigns/{{name}}/{ask.value}",
        name=ask.value,
        summary=summary,
        description=description,
        response_description="The change was made",
        responses=_CHANGED,
    )
    async def change(
        context: FirstClusterContext,
        asked: Annotated[OperatorRequest, by_operator(f"{ask.value} campaigns")],
        name: _Name,
        response: Response,
    ) -> CampaignView:
        before = await _known_campaign(context, name)
        await _check(context, AskCampaignCheck(name=name, ask=ask.value))
        payload = CampaignChangeRequested(principal=asked.principal, reason=asked.reason, cluster=context.cluster)

        async def look() -> CampaignView | None:
            found = await _campaign(context, name)
            return found if found is not None and found.state in becomes else None

        draft = Draft("campaign", name, f"{ask.value}-requested", payload)
        return await requested_change(context, asked, draft, look, before=before, response=response)


_add_change(
    CampaignAsk.PAUSE,
    "paused",
    summary="Pause a campaign",
    description="Upgrades under way complete; nodes that wait for their jobs become schedulable again.",
)
_add_change(
    CampaignAsk.RESUME,
    "going",
    summary="Resume a paused or stopped campaign",
    description="Failed nodes are tried again.",
)
_add_change(
    CampaignAsk.ABORT,
    "aborting",
    "ended",
    summary="Abort a campaign before all its nodes are upgraded",
    description="Like a pause, but the campaign cannot be resumed.",
)


async def _check(context: AppContext, ask: AskCampaignCheck) -> None:
    """Raise ProblemError (422) if the upgrader would refuse. Without an answer, it decides when it folds it."""
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


async def _known_campaign(context: AppContext, name: str) -> CampaignView:
    """Return a campaign. Raises ProblemError (404), UnreachableError."""
    found = await _campaign(context, name)
    if found is None:
        raise not_found("campaign", name[:NAME_CHARS_TOLD])
    return found
