"""Why a lane waits, in words: found when somebody has to be told, from what is true then."""

from muster.scheduler.core.exclusions import closed
from muster.scheduler.core.reasons import Blocked, Reason, of_ceiling, of_shortage
from muster.scheduler.core.state import State
from muster.scheduler.core.waiting import Lane


def why_blocked(state: State, lane: Lane) -> Blocked:
    """Why the first of a lane that is blocked cannot run. Proposals of the decision that is being made count."""
    queues = state.queues
    if lane.queue not in queues.queues:
        return unknown_queue(lane.queue)
    wanted = lane.cap.amounts if lane.cap is not None and lane.cap.amounts else lane.kind.amounts_least
    ceiling = queues.ceiling(lane.queue, wanted, preemptible=lane.kind.preemptible)
    if ceiling is not None:
        return of_ceiling(ceiling, wanted=wanted)
    if lane.cap is not None:
        return lane.cap.word
    if lane.kind.avoided:
        return _kept_off(state, lane)
    if state.line.has_turn(lane):
        return Blocked(Reason.TURN, "there is room again; it is tried in the next cycle")
    return of_shortage(state.fleet.shortage(lane.kind.gang))


def _kept_off(state: State, lane: Lane) -> Blocked:
    """Jobs of this lane are kept off some nodes: what the others lack, and which these are."""
    fleet, gang, avoided = state.fleet, lane.kind.gang, lane.kind.avoided
    with closed(fleet, avoided):
        if fleet.find(gang) is not None:
            return Blocked(Reason.TURN, "there is room again; it is tried in the next cycle")
        lacking = of_shortage(fleet.explain(gang))
    nodes = ", ".join(sorted(avoided))
    return Blocked(lacking.reason, f"{lacking.detail}; it is kept off {nodes}, where a run of it failed its checks")


def unknown_queue(name: str) -> Blocked:
    """There is no such queue, or not yet."""
    return Blocked(Reason.UNKNOWN_QUEUE, f"there is no queue {name}")
