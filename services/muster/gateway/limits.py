"""Rate limits of each principal and team. Each replica of the gateway counts separately."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil

from muster.bus.gateway_settings import AccessSettings
from muster.gateway.authorise import Principal
from muster.gateway.problems import too_many
from muster.gateway.rates import Buckets, Rate
from muster.schemas.access import Allowance

KEYS_MAX = 16_384
"""Maximum number of principals and teams whose use is remembered."""

JOB_BYTES_PER_WRITE = 8 * 1024
"""A larger job counts as several writes, because bytes fill the log."""

MINUTE_S = 60


@dataclass(frozen=True)
class Limits:
    """The rate limits of every role, and the remaining allowance of each principal and team."""

    access: AccessSettings = field(default_factory=AccessSettings)
    _buckets: Buckets = field(default_factory=lambda: Buckets(keys_max=KEYS_MAX))
    _open: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def request(self, principal: Principal, *, is_write: bool, now_s: float) -> Iterator[None]:
        """Count a request while it is open. Raises ProblemError (429)."""
        most = self.access.of(principal.role).open_requests_max
        if most is not None and self._open[principal.name] >= most:
            raise too_many(
                f"{principal.name} has {most} open requests, the maximum of role {principal.role.value}",
                field="open_requests_max",
                wait_s=1,
            )
        self._take(principal, "requests", now_s=now_s)
        if is_write:
            self.writes(principal, 1, now_s=now_s)
        self._open[principal.name] += 1
        try:
            yield
        finally:
            self._open[principal.name] -= 1
            if not self._open[principal.name]:
                del self._open[principal.name]

    def writes(self, principal: Principal, count: int, *, now_s: float) -> None:
        """Count writes of a principal. Raises ProblemError (429)."""
        self._take(principal, "writes", cost=count, now_s=now_s)

    def job(self, principal: Principal, team: str, *, body_bytes: int, now_s: float) -> None:
        """Count a job that is about to be stored, in addition to the one write of its request. Raises ProblemError
        (429)."""
        writes = _writes(body_bytes)
        if writes > 1:
            self.writes(principal, writes - 1, now_s=now_s)
        self._take(principal, "team-jobs", cost=writes, team=team, now_s=now_s)

    def give_back(self, principal: Principal, team: str, *, body_bytes: int) -> None:
        """Return the allowance that a repeated submission took: it adds nothing to the log."""
        if self._rate(principal, "team-jobs") is not None:
            self._buckets.give_back(_key(principal, "team-jobs", team), _writes(body_bytes))

    def allowances(self, principal: Principal, *, now_s: float) -> tuple[Allowance, ...]:
        """Return the rate limits of a principal, with the remaining allowance of each."""
        limited = [("requests", ""), ("writes", ""), *(("team-jobs", team) for team in sorted(principal.teams))]
        found = []
        for what, team in limited:
            rate = self._rate(principal, what)
            if rate is not None:
                left = self._buckets.left(_key(principal, what, team), rate, now_s=now_s)
                per_min = round(rate.per_s * MINUTE_S)
                found.append(Allowance(what=what, team=team, per_min=per_min, burst=rate.burst, left=max(0, int(left))))
        return tuple(found)

    def _take(self, principal: Principal, what: str, *, now_s: float, cost: int = 1, team: str = "") -> None:
        rate = self._rate(principal, what)
        if rate is None:
            return
        wait_s = self._buckets.take(_key(principal, what, team), rate, cost=cost, now_s=now_s)
        if wait_s > 0:
            who = f"team {team!r}" if team else principal.name
            raise too_many(
                f"{who} may make {round(rate.per_s * MINUTE_S)} {what} a minute and {rate.burst} at once "
                f"(role {principal.role.value})",
                field=what,
                wait_s=ceil(wait_s),
            )

    def _rate(self, principal: Principal, what: str) -> Rate | None:
        role = self.access.of(principal.role)
        match what:
            case "requests":
                return None if role.requests_per_s is None else Rate(role.requests_per_s, role.requests_burst)
            case "writes":
                return None if role.writes_per_min is None else Rate(role.writes_per_min / MINUTE_S, role.writes_burst)
            case _:
                per_min = role.team_jobs_per_min
                return None if per_min is None else Rate(per_min / MINUTE_S, role.team_jobs_burst)


def _writes(body_bytes: int) -> int:
    return max(1, ceil(body_bytes / JOB_BYTES_PER_WRITE))


def _key(principal: Principal, what: str, team: str) -> tuple[str, str]:
    """Return the key of a bucket; all principals of a team share its bucket."""
    return (what, team) if team else (what, principal.name)
