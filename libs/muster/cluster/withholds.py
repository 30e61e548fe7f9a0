"""Requests to withhold a node or device, as `Grants` keeps them: asked, changed, in force, answered. Pure.

A request that names a later moment closes nothing yet: until then what ends before may still start there, which is for
whoever places jobs to see to. It is in force from the moment on at which it is answered; one that names no later moment
is in force at once.
"""

from collections.abc import Iterable

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.node import RunningJobs, WithholdRequested, WithholdWish

Wishes = tuple[WithholdWish, ...]

MOVE_WAIT_S = 1_800.0
"""So long it is waited at most for the checkpoint after which a job is moved, and so early that begins."""

MOVE_WAIT_NS = round(MOVE_WAIT_S * NS_PER_S)

MOVERS = frozenset({"composer", "scaler"})
"""Services that withhold what they are about to move: it is well, and will not be there any more."""


def with_request(wishes: Wishes, asked: WithholdRequested, *, fact: str, by: str, at: int) -> Wishes | None:
    """The wishes with this request, asked at `at` (ns); None if it says nothing new.

    The same request once more changes how it is asked, as long as it is not answered; force that was asked for stays.
    """
    known = known_in(wishes, asked.request_id)
    wish = WithholdWish(
        request_id=asked.request_id,
        fact=fact,
        force=asked.force or (known is not None and known.force),
        by=by,
        running=asked.running,
        from_at=asked.from_at if asked.from_at > at else 0,
        reason=asked.reason,
        asked_at=at,
    )
    if known is not None and (known.answered or _terms(known) == _terms(wish)):
        return None
    return (*(one for one in wishes if one is not known), wish)


def known_in(wishes: Wishes, request_id: str) -> WithholdWish | None:
    """The wish of this request."""
    return next((wish for wish in wishes if wish.request_id == request_id), None)


def is_closed(wishes: Wishes) -> bool:
    """Whether one of them is in force, so that nothing new may be placed."""
    return any(wish.answered or not wish.from_at for wish in wishes)


def is_doubted(wishes: Wishes) -> bool:
    """Whether one that is in force was made for another reason than to move the node or device."""
    return any(wish.by not in MOVERS for wish in wishes if wish.answered or not wish.from_at)


def planned(wishes: Wishes) -> list[WithholdWish]:
    """Those that name a later moment and are not answered."""
    return [wish for wish in wishes if wish.from_at and not wish.answered]


def vacates_from(wishes: Iterable[WithholdWish]) -> Instant | None:
    """From when on jobs may have to go before their end, for one that is not answered; None: none has to."""
    moments = (
        max(wish.asked_at, wish.from_at - (MOVE_WAIT_NS if wish.running is RunningJobs.MOVE else 0))
        for wish in wishes
        if wish.running is not RunningJobs.FINISH and not wish.answered
    )
    return min(map(Instant, moments), default=None)


def _terms(wish: WithholdWish) -> tuple[bool, RunningJobs, int]:
    return wish.force, wish.running, wish.from_at
