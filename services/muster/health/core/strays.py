"""Requests to withhold that nobody needs any more, because what they were for is gone: they are withdrawn.

The scheduler answers them all the same, and a node that comes again under its name would be kept from jobs for nothing.
"""

from muster.core import Draft
from muster.health.core.state import DEVICE, State
from muster.health.core.units import Unit
from muster.schemas.facts.node import GrantState, WithholdWithdrawn

OWN = "health"
GONE = "what it was asked for is gone"


def abandon(state: State, unit: Unit) -> None:
    """The unit is about to be dropped. What was answered goes with it, unless another node shows the device by now."""
    stays = unit.kind == DEVICE and unit.name in state.nodes.node_of
    for request, answered in ((unit.request_id, unit.is_withheld), (unit.withdrawn_id, unit.crossed)):
        if request and (stays if answered else request == unit.request_id):
            state.strays[unit.kind, unit.name, request] = answered


def is_own(name: str, request: str) -> bool:
    """Whether health asked under this id to withhold what has this name."""
    return request.startswith(f"{OWN}.{name}.")


def load(state: State, kind: str, name: str, grant: GrantState) -> None:
    """What a checkpoint says of requests; those of units that come with it, before or after, are no strays."""
    for wish in grant.wishes:
        if is_own(name, wish.request_id) and wish.by in (OWN, "") and wish.request_id not in state.requests:
            state.strays[kind, name, wish.request_id] = wish.answered


def withdrawals(state: State, room: int) -> list[Draft]:
    """At most `room` of them."""
    found = list(state.strays.items())[: max(0, room)]
    return [
        Draft(
            kind,
            name,
            "withhold-withdrawn",
            WithholdWithdrawn(request_id=request, reason=GONE, after_withheld=answered),
        )
        for (kind, name, request), answered in found
    ]
