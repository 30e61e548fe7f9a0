"""Compute shares that give a priority level exactly the wanted seats, whatever the other levels have.

An API server gives a level `ceil(server_seats * shares / total_shares)` seats (apiserver v0.34,
util/flowcontrol/apf_controller.go), so seats follow from shares and change with every other level. If the sum of shares
is small, even one share gives too many seats; a ballast level, to which no request goes, then adds to the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

TOTAL_SHARES_MAX = 1_000_000
"""Largest sum of shares of a plan."""
LOOKS_MAX = 200_000
"""Sums of shares tried for one plan."""


@dataclass(frozen=True, slots=True)
class ServerSeats:
    """Seats of one API server, --max-requests-inflight and --max-mutating-requests-inflight together.

    `low` and `high` are the fewest and most over all replicas, or the range that the metrics allow.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"server seats {self.low} to {self.high}: must be at least 1, with the fewest first")

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Want:
    """Seats that a level must have on every API server."""

    level: str
    seats: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Shares by level, in the order of the wants; `total` includes the ballast and the other levels."""

    shares: tuple[int, ...]
    ballast: int
    total: int


@dataclass(frozen=True, slots=True)
class Impossible:
    """No shares give the wanted seats; `reason` says why and what to do."""

    reason: str


def seats_of(shares: int, *, total: int, server_seats: int) -> int:
    """Return the nominal seats of a level on one API server, as the server's floats give them."""
    return -(-server_seats * shares // total) if total else 0


def are_right(shares: Sequence[int], wants: Sequence[Want], *, total: int, server: ServerSeats) -> bool:
    """Return whether these shares give the wanted seats on every API server."""
    return len(shares) == len(wants) and all(
        seats_of(mine, total=total, server_seats=some) == want.seats
        for mine, want in zip(shares, wants, strict=True)
        for some in (server.low, server.high)
    )


def plan_for(wants: Sequence[Want], *, others: int, server: ServerSeats) -> Plan | Impossible:
    """Return the shares with the smallest sum, so that the other levels (`others` shares) keep as many seats as
    possible.

    A level has N seats while (N-1)/low < shares/total <= N/high: for one sum an interval of shares, of which the
    smallest leaves the most. Raises ValueError for seats below 1.
    """
    if any(want.seats < 1 for want in wants):
        raise ValueError("wanted seats: must be at least 1; a level with 0 seats executes no request")
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
        f"other levels; lower the wanted seats or the shares of the other levels"
    )


def _why_never(wants: Sequence[Want], *, server: ServerSeats) -> str | None:
    """Return why no sum of shares can fit; None if one may."""
    for want in wants:
        if want.seats * server.low <= (want.seats - 1) * server.high:
            return (
                f"API servers have {server} seats, so no shares give level {want.level} exactly {want.seats} on each; "
                f"start all with the same --max-requests-inflight and --max-mutating-requests-inflight"
            )
    least = sum(want.seats - 1 for want in wants)
    if least >= server.low:
        return (
            f"{_said(wants)} are wanted, but an API server has {server} in total; lower the wanted seats, or raise "
            f"--max-requests-inflight"
        )
    return None


def _said(wants: Sequence[Want]) -> str:
    return " and ".join(f"{want.seats} seats for {want.level}" for want in wants)


def server_seats_from(nominal: Sequence[tuple[int, int]], *, total: int) -> ServerSeats | None:
    """Return the seats of an API server whose levels show the (shares, seats) in `nominal`.

    None if no number fits: levels changed and the server has not applied it yet.
    """
    low, high = 1, 0
    for shares, seats in nominal:
        if shares < 1:
            continue
        low = max(low, (seats - 1) * total // shares + 1)
        most = seats * total // shares
        high = min(high, most) if high else most
    return ServerSeats(low, high) if low <= high else None
