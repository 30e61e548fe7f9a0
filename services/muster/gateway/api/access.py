"""Who asks, and tokens."""

import os
import re

from fastapi import APIRouter, Request, Response

from muster.core.instant import NS_PER_S
from muster.gateway.api import answers
from muster.gateway.api.describe import describe, list_of, path, reference
from muster.gateway.authorise import refuse_unless
from muster.gateway.context import body_of, context_of, principal_of
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import MeView, Role, TokenMade, TokenRecord, TokenView
from muster.schemas.base import parse_request

TOKEN_BYTES = 32
_TOKEN_ID = re.compile(r"^[0-9a-f]{64}$")

router = APIRouter(tags=["access"])


@router.get(
    "/v1/me",
    summary="Who asks",
    **describe({200: ("The token's bearer, and its limits", reference(MeView))}, refusals=(401, 503)),
)
async def me(request: Request) -> Response:
    """Name, role and teams of the token's bearer, and what is left of its limits at this gateway."""
    principal, context = principal_of(request), context_of(request)
    return answers.model(
        MeView(
            principal=principal.name,
            role=principal.role,
            teams=tuple(sorted(principal.teams)),
            expires_at_s=principal.expires_at_s,
            limits=context.limits.allowances(principal, now_s=context.time.monotonic_s()),
        )
    )


@router.post(
    "/v1/tokens",
    summary="Make a token",
    **describe(
        {201: ("The token, shown this once", reference(TokenMade))},
        refusals=(400, 401, 403, 413, 422, 503),
        body=TokenRecord,
    ),
)
async def make_token(request: Request) -> Response:
    """Admins only. What is stored is the token's hash."""
    refuse_unless(principal_of(request), Role.ADMIN, verb="make tokens")
    record = parse_request(TokenRecord, await body_of(request))
    if record.role is Role.SUBMITTER and not record.teams:
        raise invalid("a submitter without a team may submit nothing", field="teams", cure="Name at least one team.")
    context = context_of(request)
    if record.expires_at_s is not None and record.expires_at_s * NS_PER_S <= context.time.wall():
        raise invalid("lies in the past", field="expires_at_s", cure="Give a moment to come, in seconds since 1970.")
    if context.is_reserved(record.principal):
        raise invalid("others vouch for users of such names", field="principal", cure="Choose a name without a prefix.")
    token = os.urandom(TOKEN_BYTES).hex()
    view = await context.tokens.put(token, record)
    made = TokenMade(token=token, **view.model_dump())
    return answers.model(made, status=201, headers={"Cache-Control": "no-store"})


@router.get(
    "/v1/tokens",
    summary="All tokens",
    **describe(
        {200: ("By principal; the tokens themselves are stored nowhere", list_of("tokens", TokenView))},
        refusals=(401, 403, 503),
    ),
)
async def list_tokens(request: Request) -> Response:
    """Admins only."""
    refuse_unless(principal_of(request), Role.ADMIN, verb="list tokens")
    return answers.rows("tokens", (view.model_dump_json().encode() for view in context_of(request).tokens.views()))


@router.delete(
    "/v1/tokens/{token_id}",
    summary="Revoke a token",
    **describe({204: ("Revoked", None)}, refusals=(401, 403, 404, 503), parameters=(path("token_id", "Its hash"),)),
)
async def revoke_token(request: Request) -> Response:
    """Admins only. Every gateway forgets it as soon as it hears of it."""
    refuse_unless(principal_of(request), Role.ADMIN, verb="revoke tokens")
    token_id = str(request.path_params["token_id"])
    if not _TOKEN_ID.match(token_id) or not await context_of(request).tokens.delete(token_id):
        raise not_found("token", token_id[:64])
    return Response(status_code=204)
