"""Require a valid token for every request below /v1, before all other checks and while the answer is open."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.bus.clock import TimeSource
from muster.core.instant import NS_PER_S
from muster.gateway import answers
from muster.gateway.authorise import Principal
from muster.gateway.identity.identities import Identities
from muster.gateway.limits import Limits
from muster.gateway.live_connections import Bearer
from muster.gateway.ports import Tokens, UnreachableError
from muster.gateway.problems import ProblemError, unauthorised, unavailable
from muster.schemas.access import token_hash

API: Final = "/v1"
PRINCIPAL: Final = "muster.principal"
"""Key of the request's scope that holds the authenticated principal."""

BEARER: Final = "muster.bearer"
"""Key of the request's scope that holds the token, for checks while the answer stays open."""

CHECK_S = 2.0
"""Time between two checks whether the token of an open answer is still valid, in seconds."""

LEAVE_S = 1.0
"""Time that a client has to receive the end of an answer whose token is no longer valid, in seconds."""

LIVE_CREDENTIAL: Final = "/v1/live/credential"
"""Counts as a read although its method is POST: it stores nothing."""

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Authentication:
    """Middleware before the routes: no route can be reached, or found, without a token."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        identities: Identities | None,
        is_reserved: Callable[[str], bool],
        limits: Limits,
        time: TimeSource,
    ) -> None:
        """Create the middleware. identities: users that external identity providers authenticate; None for none.
        is_reserved: whether a principal name is reserved, so that no token of Muster may have it."""
        self._app = app
        self._tokens = tokens
        self._identities = identities
        self._is_reserved = is_reserved
        self._limits = limits
        self._time = time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request below /v1, then pass it on; other requests pass without a check."""
        if scope["type"] != "http" or not _is_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            token = bearer_token(scope)
            if not token:
                raise unauthorised("no bearer token was sent")
            principal = await self._owner(token)
            is_write = not is_read(scope["method"], scope["path"])
            with self._limits.request(principal, is_write=is_write, now_s=self._time.monotonic_s()):
                scope[PRINCIPAL] = principal
                scope[BEARER] = Bearer(token_hash(token), partial(self._is_valid, token, principal))
                await self._answer(token, principal, scope, receive, send)
        except ProblemError as refusal:
            await answers.problem(refusal.problem)(scope, receive, send)

    async def _owner(self, token: str) -> Principal:
        """Return the token's principal. Raises ProblemError: 401, 403, or 503 while the token cannot be checked."""
        principal = self._tokens.principal(token_hash(token))
        if principal is None:
            return await self._vouched(token)
        if self._has_expired(principal):
            raise unauthorised("the token has expired")
        if self._is_reserved(principal.name):
            raise unauthorised(
                f"the token's principal {principal.name!r} has a reserved name; ask an admin for a new token"
            )
        return principal

    async def _vouched(self, token: str) -> Principal:
        """Return the principal of a token that Muster did not issue. Raises ProblemError as `_owner`."""
        try:
            if self._identities is not None:
                return await self._identities.identify(token)
            raise unauthorised("invalid token")
        except ProblemError as refusal:
            if refusal.problem.status == HTTPStatus.UNAUTHORIZED and not self._tokens.is_ready:
                raise unavailable("the tokens were not read yet") from refusal
            raise
        except UnreachableError as error:
            raise unavailable(str(error)) from error

    async def _answer(self, token: str, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request; end an answer that is still open when its token becomes invalid."""
        is_body_read = is_answered = has_ended = False

        async def send_noting(message: Message) -> None:
            nonlocal is_answered
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        async def receive_while_valid() -> Message:
            nonlocal is_body_read, has_ended
            if is_body_read:  # the application waits for the disconnect while its answer is open
                message = await self._while_valid(token, principal, receive)
            else:
                message = await receive()
                is_body_read = not message.get("more_body", False)
                message = message if await self._is_valid(token, principal) else None
            has_ended = message is None
            return message or {"type": "http.disconnect"}

        await self._app(scope, receive_while_valid, send_noting)
        if has_ended and not is_answered:
            with suppress(TimeoutError):  # the client does not read: the server closes the connection
                async with asyncio.timeout(LEAVE_S):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _while_valid(self, token: str, principal: Principal, receive: Receive) -> Message | None:
        """Return the next message of the client, or None if the token becomes invalid before."""
        receiving = asyncio.ensure_future(receive())
        try:
            while not receiving.done():
                await asyncio.wait([receiving], timeout=CHECK_S)
                if not receiving.done() and not await self._is_valid(token, principal):
                    return None
            return receiving.result()
        finally:
            receiving.cancel()

    async def _is_valid(self, token: str, principal: Principal) -> bool:
        """Return whether an open answer may continue. While the token cannot be checked: until its known expiry."""
        try:
            await self._owner(token)
        except ProblemError as refusal:
            is_unknown = refusal.problem.status == HTTPStatus.SERVICE_UNAVAILABLE
            return is_unknown and not self._has_expired(principal)
        return True

    def _has_expired(self, principal: Principal) -> bool:
        at_s = principal.expires_at_s
        return at_s is not None and self._time.wall() >= at_s * NS_PER_S


def _is_api(path: str) -> bool:
    return path == API or path.startswith(f"{API}/")


def is_read(method: str, path: str) -> bool:
    """Return whether a request only reads."""
    return method in _READS or path == LIVE_CREDENTIAL


def bearer_token(scope: Scope) -> str:
    """Return the bearer token that a request carries, "" if it carries none."""
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
