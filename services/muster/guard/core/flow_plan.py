"""Plan the writes of flow control from the objects in the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.guard.core.config import Kind, Subjects
from muster.guard.core.flow import BALLAST, LEVEL, Level, differences, leftovers, level_of, objects_of, plan_of
from muster.guard.core.look import FlowLook, Replica
from muster.guard.core.seats import Impossible, Plan, ServerSeats, server_seats_from
from muster.kube.objects import JsonObject, name_of, text


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """Looks at the guarded kinds, and objects to write and delete, in order."""

    looks: tuple[FlowLook, ...]
    writes: tuple[JsonObject, ...] = ()
    deletes: tuple[JsonObject, ...] = ()


def server_seats_of(replicas: Sequence[Replica], levels: Sequence[Level]) -> ServerSeats | None:
    """Return the fewest and most seats of the API servers that answered; None if no server shows them.

    A level without a borrowing limit may use all seats of the server besides its own, so its upper limit gives the
    exact number; where that alpha metric is absent, the nominal seats of all levels leave a range.
    """
    found = [
        one
        for replica in replicas
        if replica.page is not None and (one := _exactly(replica, levels) or _by_nominal(replica, levels)) is not None
    ]
    if not found:
        return None
    return ServerSeats(min(one.low for one in found), max(one.high for one in found))


def _exactly(replica: Replica, levels: Sequence[Level]) -> ServerSeats | None:
    page = replica.page
    assert page is not None
    for level in levels:
        if level.borrowing is None and level.name in page.upper_seats and level.name in page.seats:
            seats = page.upper_seats[level.name] - page.seats[level.name]
            return ServerSeats(seats, seats) if seats > 0 else None
    return None


def _by_nominal(replica: Replica, levels: Sequence[Level]) -> ServerSeats | None:
    page = replica.page
    assert page is not None
    total = sum(level.shares for level in levels)
    shown = [(level.shares, page.seats[level.name]) for level in levels if level.name in page.seats]
    return server_seats_from(shown, total=total) if shown and total else None


def flow_plan(
    kinds: Sequence[Kind],
    subjects: Subjects,
    found: Sequence[JsonObject],
    *,
    replicas: Sequence[Replica],
    server: ServerSeats | None,
) -> FlowPlan:
    """Plan from every FlowSchema and PriorityLevelConfiguration in `found`. Without `server` nothing is written."""
    levels = [level_of(one) for one in found if text(one, "kind") == LEVEL]
    if server is None:
        reason = "API servers do not show their seats (metric apiserver_flowcontrol_nominal_limit_seats)"
        return FlowPlan(tuple(_look(kind, replicas, reason=reason) for kind in kinds))
    plan = plan_of(kinds, levels, server=server)
    if isinstance(plan, Impossible):
        return FlowPlan(tuple(_look(kind, replicas, reason=plan.reason) for kind in kinds))
    wanted = objects_of(kinds, subjects, plan)
    writes, deletes = tuple(differences(found, wanted)), tuple(leftovers(found, wanted))
    missing = {name_of(one) for one in (*writes, *deletes)}
    looks = tuple(
        _look(kind, replicas, plan=plan, shares=shares, missing=bool({kind.level, BALLAST} & missing))
        for kind, shares in zip(kinds, plan.shares, strict=True)
    )
    return FlowPlan(looks, writes, deletes)


def _look(
    kind: Kind,
    replicas: Sequence[Replica],
    *,
    plan: Plan | None = None,
    shares: int = 0,
    missing: bool = True,
    reason: str = "",
) -> FlowLook:
    seats = [one.page.seats[kind.level] for one in replicas if one.page and kind.level in one.page.seats]
    found = (min(seats), max(seats)) if seats else None
    is_right = not missing and found == (kind.seats, kind.seats)
    if not is_right and not reason:
        reason = "its objects differ from the wanted ones" if missing else "API servers have not applied it yet"
    return FlowLook(
        level=kind.level,
        resource=kind.title,
        wanted=kind.seats,
        found=found,
        shares=shares,
        ballast=plan.ballast if plan else 0,
        total=plan.total if plan else 0,
        is_right=is_right,
        reason="" if is_right else reason,
    )
