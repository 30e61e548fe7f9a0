"""Requests to drain (withhold) a node or device, as `Grants` keeps them: made, changed, in force, answered. Pure.

A request for a later time does not close the node yet: until then, jobs that end before may still start there, which
the scheduler has to check. It is in force from the time at which it is answered; a request without a later time is in
force at once.
"""

from collections.abc import Iterable

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.node import RunningJobs, WithholdRequested, WithholdWish

Wishes = tuple[WithholdWish, ...]

MOVE_WAIT_S = 1_800.0
"""Maximum wait for the checkpoint after which a job is moved; the wait starts this long before a planned drain."""

MOVE_WAIT_NS = round(MOVE_WAIT_S * NS_PER_S)

MOVERS = frozenset({"composer", "scaler"})
"""Services that drain what they are about to move: it is healthy, and will leave."""


def with_request(wishes: Wishes, asked: WithholdRequested, *, fact: str, by: str, at: int) -> Wishes | None:
    """Return the requests with this one, made at `at` (ns), added; None if it changes nothing.

    A repeated request replaces the terms of the first as long as that is not answered; requested force stays.
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
    """Return the known request with this id; None if there is none."""
    return next((wish for wish in wishes if wish.request_id == request_id), None)


def is_closed(wishes: Wishes) -> bool:
    """Return whether one of the requests is in force, so that nothing new may be placed."""
    return any(wish.answered or not wish.from_at for wish in wishes)


def is_doubted(wishes: Wishes) -> bool:
    """Return whether a request in force has another reason than to move the node or device."""
    return any(wish.by not in MOVERS for wish in wishes if wish.answered or not wish.from_at)


def planned(wishes: Wishes) -> list[WithholdWish]:
    """Return the unanswered requests for a later time."""
    return [wish for wish in wishes if wish.from_at and not wish.answered]


def vacates_from(wishes: Iterable[WithholdWish]) -> Instant | None:
    """Return from when on jobs may have to leave before their end, for an unanswered request; None if none has to."""
    moments = (
        max(wish.asked_at, wish.from_at - (MOVE_WAIT_NS if wish.running is RunningJobs.MOVE else 0))
        for wish in wishes
        if wish.running is not RunningJobs.FINISH and not wish.answered
    )
    return min(map(Instant, moments), default=None)


def _terms(wish: WithholdWish) -> tuple[bool, RunningJobs, int]:
    return wish.force, wish.running, wish.from_at
