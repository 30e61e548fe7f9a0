"""Check bearer tokens that Muster did not issue: each identity provider is asked once, and its answer is cached."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import IdentitySettings
from muster.core.instant import NS_PER_S, Instant, after
from muster.gateway.authorise import Principal
from muster.gateway.identity.mapping import Grant, Grants, RejectedTokenError, User
from muster.gateway.identity.unverified import UnverifiedToken, parse_unverified
from muster.gateway.metrics import Metrics
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError, unauthorised
from muster.schemas.access import Role, token_hash
from muster.schemas.views import Problem

Kept = TypeVar("Kept")


class Source(Protocol):
    """An identity provider."""

    name: str
    prefix: str
    """Prefix of the names and groups of its users."""
    cache_s: float
    """How long an answer is cached, in seconds."""

    def takes(self, token: UnverifiedToken) -> bool:
        """Return whether this provider has to verify the token."""
        ...

    async def verify(self, token: UnverifiedToken) -> User:
        """Return the token's user. Raises RejectedTokenError, UnreachableError."""
        ...


@dataclass(frozen=True, slots=True)
class _Accepted:
    principal: Principal
    until: Instant


@dataclass(frozen=True, slots=True)
class _Refused:
    problem: Problem  # not the exception: each raise would add to its traceback
    until_s: float


class Identities:
    """Accepted and refused tokens by their hash, in bounded tables; the providers in the order they are asked."""

    def __init__(
        self, settings: IdentitySettings, sources: Sequence[Source], *, time: TimeSource, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._sources = tuple(sources)
        self._time = time
        self._metrics = metrics
        self._grants = _grants(settings)
        self._accepted: OrderedDict[str, _Accepted] = OrderedDict()
        self._refused: OrderedDict[str, _Refused] = OrderedDict()
        self._checks: dict[str, asyncio.Task[Principal]] = {}
        self._prefixes = tuple(source.prefix for source in self._sources)

    def names(self, principal: str) -> bool:
        """Return whether a principal of this name belongs to a provider, so that no token of Muster may have it."""
        return principal.startswith(self._prefixes)

    def cached(self, token: str) -> Principal | None:
        """Return the token's principal if it is cached."""
        return self._cached(token_hash(token))

    async def identify(self, token: str) -> Principal:
        """Return the token's principal. A cached answer costs little: an open answer is checked every few seconds.

        Raises ProblemError (401, 403), and UnreachableError if the token cannot be verified now.
        """
        token_id = token_hash(token)
        principal = self._cached(token_id)
        if principal is not None:
            return principal
        refused = self._refused.get(token_id)
        if refused is not None and self._time.monotonic_s() < refused.until_s:
            raise _raised(refused.problem)
        check = self._checks.get(token_id)
        if check is None:
            if len(self._checks) >= self._settings.checks_max:
                raise UnreachableError("too many tokens are being checked")
            check = asyncio.create_task(self._check(token, token_id), name="check-token")
            self._checks[token_id] = check
            check.add_done_callback(lambda done: self._checked(token_id, done))
        return await asyncio.shield(check)  # others may wait for the same answer

    def _checked(self, token_id: str, check: asyncio.Task[Principal]) -> None:
        del self._checks[token_id]
        if not check.cancelled():
            check.exception()  # waiting callers receive it; here it is only marked as retrieved

    async def _check(self, token: str, token_id: str) -> Principal:
        unverified = parse_unverified(token)
        source = next((one for one in self._sources if unverified is not None and one.takes(unverified)), None)
        if source is None or unverified is None:
            raise self._refuse(token_id, "unknown", unauthorised("invalid token"))
        try:
            user = await source.verify(unverified)
            principal = self._grants.principal(user, prefix=source.prefix)
        except RejectedTokenError as error:
            raise self._refuse(token_id, source.name, unauthorised(str(error)), remember=error.remember) from error
        except ProblemError as error:
            raise self._refuse(token_id, source.name, error) from error
        except UnreachableError:
            self._metrics.identities.labels(source.name, "unavailable").inc()
            raise
        self._metrics.identities.labels(source.name, "accepted").inc()
        until = after(self._time.wall(), source.cache_s)
        if principal.expires_at_s is not None:
            until = min(until, Instant(principal.expires_at_s * NS_PER_S))
        _put(self._accepted, token_id, _Accepted(principal, until), most=self._settings.cached_max)
        return principal

    def _cached(self, token_id: str) -> Principal | None:
        found = self._accepted.get(token_id)
        if found is None:
            return None
        if self._time.wall() >= found.until:
            del self._accepted[token_id]
            return None
        self._accepted.move_to_end(token_id)
        return found.principal

    def _refuse(self, token_id: str, source: str, problem: ProblemError, *, remember: bool = True) -> ProblemError:
        self._metrics.identities.labels(source, "refused").inc()
        if remember:
            until_s = self._time.monotonic_s() + self._settings.refused_s
            _put(self._refused, token_id, _Refused(problem.problem, until_s), most=self._settings.refused_max)
        return problem


def _grants(settings: IdentitySettings) -> Grants:
    by_group = {entry.group: Grant(entry.role, frozenset(entry.teams)) for entry in settings.groups}
    return Grants(by_group, Role.VIEWER if settings.no_group == "viewer" else None)


def _raised(problem: Problem) -> ProblemError:
    return ProblemError(problem.status, problem.title, detail=problem.detail, field=problem.field, cure=problem.cure)


def _put(table: OrderedDict[str, Kept], key: str, value: Kept, *, most: int) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > most:
        table.popitem(last=False)
