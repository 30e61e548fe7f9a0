"""Requests to drain (withhold) a node or device, as `Grants` keeps them: made, changed, in force, answered. Pure.

A request for a later time does not close the node yet: until then, jobs that end before may still start there, which
the scheduler has to check. It is in force from the time at which it is answered; a request without a later time is in
force at once.
"""

from collections.abc import Iterable

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.node import DrainRequest, RunningJobs, WithholdRequested

OpenDrains = tuple[DrainRequest, ...]

MOVE_WAIT_S = 1_800.0
"""Maximum wait for the checkpoint after which a job is moved; the wait starts this long before a planned drain."""

MOVE_WAIT_NS = round(MOVE_WAIT_S * NS_PER_S)

MOVERS = frozenset({"composer", "scaler"})
"""Services that drain what they are about to move: it is healthy, and will leave."""


def with_request(requests: OpenDrains, asked: WithholdRequested, *, fact: str, by: str, at: int) -> OpenDrains | None:
    """Return the requests with this one, made at `at` (ns), added; None if it changes nothing.

    A repeated request replaces the terms of the first as long as that is not answered; requested force stays.
    """
    known = known_in(requests, asked.request_id)
    request = DrainRequest(
        request_id=asked.request_id,
        fact=fact,
        force=asked.force or (known is not None and known.force),
        by=by,
        running=asked.running,
        from_at=asked.from_at if asked.from_at > at else 0,
        reason=asked.reason,
        asked_at=at,
    )
    if known is not None and (known.answered or _terms(known) == _terms(request)):
        return None
    return (*(one for one in requests if one is not known), request)


def known_in(requests: OpenDrains, request_id: str) -> DrainRequest | None:
    """Return the known request with this id; None if there is none."""
    return next((request for request in requests if request.request_id == request_id), None)


def is_closed(requests: OpenDrains) -> bool:
    """Return whether one of the requests is in force, so that nothing new may be placed."""
    return any(request.answered or not request.from_at for request in requests)


def is_doubted(requests: OpenDrains) -> bool:
    """Return whether a request in force has another reason than to move the node or device."""
    return any(request.by not in MOVERS for request in requests if request.answered or not request.from_at)


def planned(requests: OpenDrains) -> list[DrainRequest]:
    """Return the unanswered requests for a later time."""
    return [request for request in requests if request.from_at and not request.answered]


def vacates_from(requests: Iterable[DrainRequest]) -> Instant | None:
    """Return from when on jobs may have to leave before their end, for an unanswered request; None if none has to."""
    moments = (
        max(request.asked_at, request.from_at - (MOVE_WAIT_NS if request.running is RunningJobs.MOVE else 0))
        for request in requests
        if request.running is not RunningJobs.FINISH and not request.answered
    )
    return min(map(Instant, moments), default=None)


def _terms(request: DrainRequest) -> tuple[bool, RunningJobs, int]:
    return request.force, request.running, request.from_at
