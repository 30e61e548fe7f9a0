"""Routes of the caller's identity and of API tokens."""

import os
import re
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from muster.bus.printable import printable
from muster.core.instant import NS_PER_S
from muster.gateway.api.dependencies import Caller, Context, needs
from muster.gateway.api.openapi import OF_BODIES, listing, refusals
from muster.gateway.api.parameters import JsonBody
from muster.gateway.authorise import Principal
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import MeView, Role, TokenMade, TokenRecord, TokenView

TOKEN_BYTES = 32
_TOKEN_ID = re.compile(r"^[0-9a-f]{64}$")

router = APIRouter(tags=["access"], responses=refusals())


@router.get("/v1/me", summary="Show the caller", response_description="The token's principal and its rate limits")
async def me(caller: Caller, context: Context) -> MeView:
    """Return name, role and teams of the token's principal, and its remaining rate limits at this gateway."""
    return MeView(
        principal=caller.name,
        role=caller.role,
        teams=tuple(sorted(caller.teams)),
        expires_at_s=caller.expires_at_s,
        limits=context.limits.allowances(caller, now_s=context.time.monotonic_s()),
    )


@router.post(
    "/v1/tokens",
    status_code=201,
    summary="Create a token",
    response_description="The token; it is shown only once",
    responses=refusals(*OF_BODIES, 403),
)
async def make_token(
    _: Annotated[Principal, needs(Role.ADMIN, verb="create tokens")],
    record: Annotated[TokenRecord, Depends(JsonBody(TokenRecord))],
    context: Context,
    response: Response,
) -> TokenMade:
    """Create a token; admins only. Only the token's hash is stored."""
    if record.role is Role.SUBMITTER and not record.teams:
        raise invalid("a submitter without a team may not submit jobs", field="teams", cure="Name at least one team.")
    if record.expires_at_s is not None and record.expires_at_s * NS_PER_S <= context.time.wall():
        raise invalid("the time is in the past", field="expires_at_s", cure="Use a future time, in Unix seconds.")
    if printable(record.principal) != record.principal:
        raise invalid("holds a control character", field="principal", cure="Use printable characters.")
    if context.is_reserved(record.principal):
        raise invalid(
            "the prefix belongs to an identity provider", field="principal", cure="Use a name without the prefix."
        )
    token = os.urandom(TOKEN_BYTES).hex()
    view = await context.tokens.put(token, record)
    response.headers["Cache-Control"] = "no-store"
    return TokenMade(token=token, **view.model_dump())


@router.get(
    "/v1/tokens",
    summary="List tokens",
    response_model=listing("tokens", TokenView),
    response_description="By principal; only hashes of the tokens are stored",
    responses=refusals(403),
)
async def list_tokens(
    _: Annotated[Principal, needs(Role.ADMIN, verb="list tokens")], context: Context
) -> dict[str, list[TokenView]]:
    """List all tokens; admins only."""
    return {"tokens": list(context.tokens.views())}


@router.delete(
    "/v1/tokens/{token_id}",
    status_code=204,
    response_class=Response,
    summary="Revoke a token",
    response_description="Revoked",
    responses=refusals(403, 404),
)
async def revoke_token(
    _: Annotated[Principal, needs(Role.ADMIN, verb="revoke tokens")],
    token_id: Annotated[str, Path(description="The token's hash")],
    context: Context,
) -> None:
    """Revoke a token; admins only. Every gateway rejects it as soon as the change reaches the gateway."""
    if not _TOKEN_ID.match(token_id) or not await context.tokens.delete(token_id):
        raise not_found("token", token_id[:64])
