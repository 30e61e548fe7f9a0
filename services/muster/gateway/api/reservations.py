"""Routes of advance reservations: list, create and end."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from muster.core import Draft
from muster.gateway import answers
from muster.gateway.api.changes import until_so
from muster.gateway.api.dependencies import Context, EveryClusterContext, needs
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, refusals
from muster.gateway.api.parameters import IdempotencyKey, JsonBody, Reason
from muster.gateway.authorise import Principal
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import Role
from muster.schemas.facts.reservation import ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.views import ReservationView

router = APIRouter(tags=["reservations"])


@router.get(
    "/v1/reservations",
    summary="List booked advance reservations",
    response_model=listing("reservations", ReservationView),
    response_description="By name",
    responses=refusals(404),
)
async def list_reservations(context: EveryClusterContext) -> Response:
    """List reservations from the scheduler, with what is reserved now; else from the read model, as booked."""
    return answers.rows("reservations", await _rows(context))


@router.post(
    "/v1/reservations",
    summary="Reserve nodes or GPUs from a given time",
    response_model=ReservationView,
    response_description="The reservation is booked",
    responses=accepted("Requested; the scheduler has not answered yet", ReservationSpec) | refusals(*OF_BODIES, 403),
)
async def reserve(
    operator: Annotated[Principal, needs(Role.OPERATOR, verb="reserve")],
    context: Context,
    spec: Annotated[ReservationSpec, Depends(JsonBody(ReservationSpec))],
    key: IdempotencyKey,
) -> Response:
    """Create a reservation, or replace one of the same name; operators only. The scheduler checks it first."""
    try:
        verdict = await context.scheduler.reservation_check(spec)
    except UnreachableError:
        verdict = None  # the scheduler decides when it folds the request
    if verdict is not None and verdict.field:
        raise invalid(verdict.reason, field=verdict.field)
    payload = ReserveRequested(spec=spec, principal=operator.name)
    await context.log.request(Draft("reservation", spec.name, "reserve-requested", payload), key=key)

    async def look() -> bytes | None:
        found = await _booked(context, spec.name)
        return found if found is not None and _view(found).spec == spec else None

    booked = await until_so(context, look)
    return answers.encoded(booked) if booked is not None else answers.model(spec, status=202)


@router.delete(
    "/v1/reservations/{name}",
    summary="End a reservation",
    response_model=ReservationView,
    response_description="The reservation as it was before its end",
    responses=accepted("Requested; the scheduler has not answered yet", ReservationView) | refusals(403, 404),
)
async def end_reservation(
    operator: Annotated[Principal, needs(Role.OPERATOR, verb="end reservations")],
    context: Context,
    name: Annotated[str, Path(description="Name of the reservation")],
    key: IdempotencyKey,
    reason: Reason = "",
) -> Response:
    """End a reservation and free its capacity; operators only. A weekly reservation does not recur."""
    before = await _booked(context, name)
    if before is None:
        raise not_found("reservation", name[:63])
    payload = ReserveEndRequested(principal=operator.name, reason=reason)
    await context.log.request(Draft("reservation", name, "end-requested", payload), key=key)

    async def look() -> bool | None:
        return True if await _booked(context, name) is None else None

    is_over = await until_so(context, look)
    return answers.encoded(before, status=200 if is_over else 202)


async def _rows(context: AppContext) -> tuple[bytes, ...]:
    """Return all rows. Raises UnreachableError if neither service answers."""
    try:
        return await context.scheduler.reservations()
    except UnreachableError:
        return await context.view.reservations()


async def _booked(context: AppContext, name: str) -> bytes | None:
    """Return the row of a reservation. Raises UnreachableError as `_rows`."""
    return next((row for row in await _rows(context) if _view(row).name == name), None)


def _view(row: bytes) -> ReservationView:
    return ReservationView.model_validate_json(row)
