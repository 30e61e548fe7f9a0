"""All facts, as they happened and as they come."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers, sse
from muster.gateway.api.describe import describe, header, list_of, query
from muster.gateway.context import context_of, count_of, flag_of, principal_of
from muster.gateway.feed import FedFact
from muster.schemas.views import FactView

PAGE_MAX = 2_000
PAGE_DEFAULT = 100

router = APIRouter(tags=["events"])


@router.get(
    "/v1/events",
    summary="Facts",
    **describe(
        {200: ("The newest facts, oldest first; with `follow` those that come", list_of("facts", FactView))},
        refusals=(401, 422, 503),
        parameters=(
            query("follow", "Keep the answer open (SSE)", kind="boolean"),
            query("after", "With `follow`: begin after this cursor (id of the last event), not now"),
            query("team", "Only about this team's jobs"),
            query(
                "limit",
                f"How many, at most {PAGE_MAX}; with `follow`: how many of those that were come first",
                kind="integer",
            ),
            header("Last-Event-ID", "The same as `after`, as a browser sends it"),
        ),
        stream=True,
    ),
)
async def events(request: Request) -> Response:
    """`Accept: text/event-stream` asks to follow, too."""
    principal_of(request)
    context = context_of(request)
    team = request.query_params.get("team", "")

    def wanted(fact: FedFact) -> bool:
        return not team or fact.team == team

    if flag_of(request, "follow") or "text/event-stream" in request.headers.get("accept", ""):
        told = (
            count_of(request, name="limit", default=PAGE_DEFAULT, most=PAGE_MAX)
            if "limit" in request.query_params
            else 0
        )
        return await sse.fact_stream(request, context, wanted, newest=told)
    limit = count_of(request, name="limit", default=PAGE_DEFAULT, most=PAGE_MAX)
    newest = await context.feed.newest(PAGE_MAX if team else limit)
    return answers.rows("facts", [fact.body for fact in newest if wanted(fact)][-limit:])
