"""All facts, as they happened and as they come."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers, sse
from muster.gateway.api.dependencies import context_of
from muster.gateway.api.openapi import listing, parameter, read_by_handler, refusals
from muster.gateway.api.parameters import Count, read_flag, read_here
from muster.gateway.feed import FedFact
from muster.schemas.views import FactView

PAGE_MAX = 2_000
PAGE_DEFAULT = 100

router = APIRouter(tags=["events"])


@router.get(
    "/v1/events",
    summary="Facts",
    response_model=listing("facts", FactView),
    response_description="The newest facts, oldest first; with `follow` those that come",
    responses=sse.STREAM | refusals(),
    openapi_extra=read_by_handler(
        parameter("follow", "Keep the answer open (SSE)", kind="boolean"),
        parameter("after", "With `follow`: begin after this cursor (id of the last event), not now"),
        parameter("team", "Only about this team's jobs"),
        parameter(
            "limit",
            f"How many, at most {PAGE_MAX}; with `follow`: how many of those that were come first",
            kind="integer",
        ),
        parameter("Last-Event-ID", "The same as `after`, as a browser sends it", place="header"),
    ),
)
async def events(request: Request) -> Response:
    """`Accept: text/event-stream` asks to follow, too."""
    context, params = context_of(request), request.query_params
    team = params.get("team", "")

    def wanted(fact: FedFact) -> bool:
        return not team or fact.team == team

    follow = read_here(params.get("follow"), read_flag, field="follow", default=False)
    limit = read_here(params.get("limit"), Count(PAGE_MAX), field="limit", default=0)
    if follow or sse.MEDIA_TYPE in request.headers.get("accept", ""):
        return await sse.fact_stream(context, wanted, after=sse.after_of(request), newest=limit)
    limit = limit or PAGE_DEFAULT
    newest = await context.feed.newest(PAGE_MAX if team else limit)
    return answers.rows("facts", [fact.body for fact in newest if wanted(fact)][-limit:])
