"""Shares that give a priority level exactly the wanted seats, whatever the other levels have.

The API server gives a level `ceil(server_seats * shares / total_shares)` seats (apiserver v0.34,
util/flowcontrol/apf_controller.go), so seats cannot be written down: they follow from shares, and change with every
other level. With few shares in sum even one share is too many; a ballast level, to which no request goes, adds to the
sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

TOTAL_SHARES_MAX = 1_000_000
"""A plan with more shares in sum is not looked for."""
LOOKS_MAX = 200_000
"""Sums of shares that are tried for one plan."""


@dataclass(frozen=True, slots=True)
class ServerSeats:
    """Seats of one API server, --max-requests-inflight and --max-mutating-requests-inflight together.

    low, high: the fewest and the most of all replicas, or that one can have by what it shows.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"server seats {self.low} to {self.high}: give at least 1, the fewest first")

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Want:
    """seats: that a level shall have on every API server."""

    level: str
    seats: int


@dataclass(frozen=True, slots=True)
class Plan:
    """shares: by level, in the order of the wants. total: of all levels, the ballast and the others included."""

    shares: tuple[int, ...]
    ballast: int
    total: int


@dataclass(frozen=True, slots=True)
class Impossible:
    """No shares do it. reason: a sentence that says why and what to do."""

    reason: str


def seats_of(shares: int, *, total: int, server_seats: int) -> int:
    """Nominal seats of a level on one API server. In whole numbers; the server's floats give the same."""
    return -(-server_seats * shares // total) if total else 0


def are_right(shares: Sequence[int], wants: Sequence[Want], *, total: int, server: ServerSeats) -> bool:
    """Whether such shares give the wanted seats on every API server."""
    return len(shares) == len(wants) and all(
        seats_of(mine, total=total, server_seats=some) == want.seats
        for mine, want in zip(shares, wants, strict=True)
        for some in (server.low, server.high)
    )


def plan_for(wants: Sequence[Want], *, others: int, server: ServerSeats) -> Plan | Impossible:
    """The shares with the smallest sum, so that other levels keep as many seats as can be.

    others: shares of all levels but the wanted ones and the ballast.
    A level has N seats while (N-1)/low < shares/total <= N/high; for one sum that is an interval of shares, and the
    smallest of it leaves the most. Raises ValueError for seats below 1.
    """
    if any(want.seats < 1 for want in wants):
        raise ValueError("wanted seats: at least 1; a level of 0 seats would never let anything through")
    if (reason := _why_never(wants, server=server)) is not None:
        return Impossible(reason)
    first = max(others + len(wants), *(-(-server.high // want.seats) for want in wants), 1)
    for total in count(first):
        if total > TOTAL_SHARES_MAX or total - first >= LOOKS_MAX:
            break
        shares = tuple((want.seats - 1) * total // server.low + 1 for want in wants)
        fits = all(mine * server.high <= want.seats * total for mine, want in zip(shares, wants, strict=True))
        ballast = total - others - sum(shares)
        if fits and ballast >= 0:
            return Plan(shares, ballast, total)
    return Impossible(
        f"no shares up to {TOTAL_SHARES_MAX} in sum give {_said(wants)} of {server} seats beside {others} shares of "
        f"other levels; want fewer seats, or give the other levels fewer shares"
    )


def _why_never(wants: Sequence[Want], *, server: ServerSeats) -> str | None:
    """Why no sum of shares can do it, however large."""
    for want in wants:
        if want.seats * server.low <= (want.seats - 1) * server.high:
            return (
                f"API servers have {server} seats, so no shares give level {want.level} exactly {want.seats} on each; "
                f"start all with the same --max-requests-inflight and --max-mutating-requests-inflight"
            )
    least = sum(want.seats - 1 for want in wants)
    if least >= server.low:
        return (
            f"{_said(wants)} are wanted and an API server has {server} in all; want fewer, or raise "
            f"--max-requests-inflight"
        )
    return None


def _said(wants: Sequence[Want]) -> str:
    return " and ".join(f"{want.seats} seats for {want.level}" for want in wants)


def server_seats_from(nominal: Sequence[tuple[int, int]], *, total: int) -> ServerSeats | None:
    """What an API server can have whose levels show these seats. nominal: (shares, seats) of levels with shares.

    None if no number gives all of them: levels changed and the server has not yet taken that up.
    """
    low, high = 1, 0
    for shares, seats in nominal:
        if shares < 1:
            continue
        low = max(low, (seats - 1) * total // shares + 1)
        most = seats * total // shares
        high = min(high, most) if high else most
    return ServerSeats(low, high) if low <= high else None
