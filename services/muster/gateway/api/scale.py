"""What the scaler chose, and what else it looked at."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import CLUSTER, describe, list_of
from muster.gateway.context import context_of, principal_of
from muster.schemas.queries import ScaleChoiceView

router = APIRouter(tags=["devices"])


@router.get(
    "/v1/scale",
    summary="The scaler's newest choices",
    **describe(
        {200: ("Newest first", list_of("choices", ScaleChoiceView))}, refusals=(401, 404, 503), parameters=(CLUSTER,)
    ),
)
async def list_choices(request: Request) -> Response:
    """From the scaler; each with the alternatives that were simulated."""
    principal_of(request)
    found = (await context_of(request).scaler.choices()).choices
    return answers.rows("choices", (one.model_dump_json().encode() for one in found))
