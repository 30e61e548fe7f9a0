"""From what flow control is like to facts: `applied` when it became as wanted, `drifted` when it is no longer."""

from collections.abc import Iterator, Mapping

from muster.core import Draft
from muster.guard.core.look import FlowLook, Look
from muster.guard.core.state import FLOW
from muster.guard.core.words import shown
from muster.schemas.facts.guard import FlowApplied, FlowDrifted, FlowState


def tell_flows(standing: Mapping[str, FlowState], look: Look) -> Iterator[Draft]:
    """What is to be said of this look's flows and is not yet. What never was right has not drifted."""
    if look.levels is None or look.server is None:
        return
    for flow in look.flows:
        state = standing.get(flow.level, FlowState())
        if flow.is_right:
            yield from _applied(flow, state, look)
        elif state.applied is not None:
            yield from _drifted(flow, state)


def _applied(flow: FlowLook, state: FlowState, look: Look) -> Iterator[Draft]:
    assert look.server is not None
    applied = FlowApplied(
        seats=flow.wanted,
        shares=flow.shares,
        ballast_shares=flow.ballast,
        total_shares=flow.total,
        server_seats=look.server.high,
        resource=flow.resource,
        why=_why(flow, state),
    )
    before = state.applied
    same = before is not None and applied.model_copy(update={"why": before.why}) == before
    if state.drifted is not None or not same:
        yield Draft(FLOW, flow.level, "applied", applied)


def _why(flow: FlowLook, state: FlowState) -> str:
    who = "written by the guard" if flow.written else "found so"
    if state.applied is None:
        return f"first seen, {who}"
    return f"other levels changed, {who}" if state.drifted is None else f"mended, {who}"


def _drifted(flow: FlowLook, state: FlowState) -> Iterator[Draft]:
    low, high = flow.found or (0, 0)
    seats = high if high != flow.wanted else low
    drifted = FlowDrifted(seats=flow.wanted, seats_found=seats, reason=shown(flow.reason))
    if state.drifted != drifted:
        yield Draft(FLOW, flow.level, "drifted", drifted)
