"""Verify tokens of a Kubernetes API server by TokenReview, with a rate limit that protects the server."""

import asyncio
import logging
from collections import OrderedDict
from typing import Protocol

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import TokenReviewSettings
from muster.core.instant import NS_PER_S, Instant
from muster.gateway.identity.mapping import RejectedTokenError, User
from muster.gateway.identity.unverified import UnverifiedToken
from muster.gateway.ports import UnreachableError
from muster.gateway.rates import Buckets, Rate
from muster.kube.errors import KubeConfigError, KubeError
from muster.kube.objects import JsonObject, mapping, text, truth
from muster.kube.resources import TOKEN_REVIEWS, Resource
from muster.schemas.access import token_hash

_log = logging.getLogger(__name__)


class Creator(Protocol):
    """The part of a connection to an API server that this module needs."""

    async def create(self, resource: Resource, body: JsonObject) -> JsonObject:
        """Create an object; return it as the server completed it. Raises KubeError."""
        ...


class TokenReviews:
    """Asks one API server. Tokens that it accepted before have a rate limit of their own.

    known_max: how many such tokens are remembered, by hash.
    """

    def __init__(self, settings: TokenReviewSettings, server: Creator, time: TimeSource, *, known_max: int) -> None:
        self._settings = settings
        self._server = server
        self._time = time
        self._known: OrderedDict[str, None] = OrderedDict()
        self._known_max = known_max
        self._rate = Rate(settings.per_s, settings.burst)
        self._asked = Buckets(keys_max=2)
        """One bucket for tokens that were accepted before, one for all others."""
        self.name = "token-review"
        self.prefix = settings.prefix
        self.cache_s = settings.cache_s

    def takes(self, token: UnverifiedToken) -> bool:
        """Return whether the token is for Muster's audience; no other token is sent to the API server."""
        return token.is_for(self._settings.audience)

    async def verify(self, token: UnverifiedToken) -> User:
        """Return the token's user. Raises RejectedTokenError; UnreachableError if the server cannot be asked now."""
        token_id = token_hash(token.text)
        is_known = token_id in self._known
        if self._asked.take(is_known, self._rate, cost=1, now_s=self._time.monotonic_s()) > 0:
            raise UnreachableError("too many tokens are being checked at the Kubernetes API server")
        try:
            user = self._user(await self._reviewed(token), token)
        except RejectedTokenError:
            self._known.pop(token_id, None)
            raise
        self._remember(token_id)
        return user

    async def _reviewed(self, token: UnverifiedToken) -> JsonObject:
        """Return the status of a TokenReview."""
        body: JsonObject = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token.text, "audiences": [self._settings.audience]},
        }
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return mapping(await self._server.create(TOKEN_REVIEWS, body), "status")
        except (KubeError, KubeConfigError, TimeoutError) as error:
            code = error.code if isinstance(error, KubeError) else 0  # never the body, which holds the token
            _log.warning("a TokenReview failed: %s (status %d)", type(error).__name__, code)
            raise UnreachableError("the Kubernetes API server cannot check tokens now") from error

    def _user(self, status: JsonObject, token: UnverifiedToken) -> User:
        if not truth(status, "authenticated"):
            raise RejectedTokenError("the Kubernetes API server does not accept this token")
        audiences = status.get("audiences")
        if not isinstance(audiences, list) or self._settings.audience not in audiences:
            raise RejectedTokenError("the token is for another audience")
        user = mapping(status, "user")
        groups = user.get("groups", [])
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise RejectedTokenError("the Kubernetes API server returned groups that are not strings")
        return User(text(user, "username"), tuple(map(str, groups)), _end_of(token))

    def _remember(self, token_id: str) -> None:
        self._known[token_id] = None
        self._known.move_to_end(token_id)
        while len(self._known) > self._known_max:
            self._known.popitem(last=False)


def _end_of(token: UnverifiedToken) -> Instant | None:
    """Return the expiry of an accepted token from its claim, which the server verified; None without the claim."""
    ends_s = token.claims.get("exp")
    if isinstance(ends_s, bool) or not isinstance(ends_s, int | float) or not 0 <= ends_s < 2**33:
        return None
    return Instant(round(ends_s * NS_PER_S))
