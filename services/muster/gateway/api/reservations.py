"""Advance reservations: look, make, end."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import ONLY_CLUSTER, describe, header, list_of, path, query, reference
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, body_of, context_of, principal_of, reason_of
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid, not_found
from muster.schemas.access import Role
from muster.schemas.base import parse_request
from muster.schemas.facts.reservation import ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.views import ReservationView

router = APIRouter(tags=["reservations"])
_KEY = header("Idempotency-Key", "The same key is the same request")


@router.get(
    "/v1/reservations",
    summary="Advance reservations that are booked",
    **describe(
        {200: ("By name", list_of("reservations", ReservationView))},
        refusals=(401, 404, 503),
        parameters=(ONLY_CLUSTER,),
    ),
)
async def list_reservations(request: Request) -> Response:
    """From the scheduler, which knows what is kept just now; else from the read model, which knows what is booked."""
    principal_of(request)
    context = context_of(request)
    try:
        rows = await context.scheduler.reservations()
    except UnreachableError:
        rows = await context.view.reservations()
    return answers.rows("reservations", rows)


@router.post(
    "/v1/reservations",
    summary="Keep nodes or GPUs from a moment on",
    **describe(
        {
            200: ("It is booked", reference(ReservationView)),
            202: ("Requested; the scheduler has not answered yet", reference(ReservationSpec)),
        },
        refusals=(400, 401, 403, 413, 422, 503),
        parameters=(_KEY,),
        body=ReservationSpec,
    ),
)
async def reserve(request: Request) -> Response:
    """Operators only. One of the same name is replaced. Asks the scheduler first whether it can be kept."""
    principal = principal_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="reserve")
    context = context_of(request)
    spec = parse_request(ReservationSpec, await body_of(request))
    try:
        verdict = await context.scheduler.reservation_check(spec)
    except UnreachableError:
        verdict = None  # the scheduler decides when it folds the request
    if verdict is not None and verdict.field:
        raise invalid(verdict.reason, field=verdict.field)
    await context.log.request_reservation(ReserveRequested(spec=spec, principal=principal.name), key=key_of(request))

    async def look() -> bytes | None:
        found = await _booked(context, spec.name)
        return found if found is not None and _view(found).spec == spec else None

    booked = await until_so(context, look)
    return answers.encoded(booked) if booked is not None else answers.model(spec, status=202)


@router.delete(
    "/v1/reservations/{name}",
    summary="End a reservation",
    **describe(
        {
            200: ("It is over; as it was", reference(ReservationView)),
            202: ("Requested; the scheduler has not answered yet", reference(ReservationView)),
        },
        refusals=(401, 403, 404, 422, 503),
        parameters=(path("name", "Name of the reservation"), query("reason", "Why, for the record"), _KEY),
    ),
)
async def end_reservation(request: Request) -> Response:
    """Operators only. What is kept is free from then on; a weekly one does not come back."""
    principal = principal_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="end reservations")
    context = context_of(request)
    name = str(request.path_params["name"])
    payload = ReserveEndRequested(principal=principal.name, reason=reason_of(request))
    before = await _booked(context, name)
    if before is None:
        raise not_found("reservation", name[:63])
    await context.log.request_reservation_end(name, payload, key=key_of(request))

    async def look() -> bool | None:
        return True if await _booked(context, name) is None else None

    is_over = await until_so(context, look)
    return answers.encoded(before, status=200 if is_over else 202)


async def _booked(context: AppContext, name: str) -> bytes | None:
    """The row of a reservation. Raises UnreachableError if nobody tells."""
    try:
        rows = await context.scheduler.reservations()
    except UnreachableError:
        rows = await context.view.reservations()
    return next((row for row in rows if _view(row).name == name), None)


def _view(row: bytes) -> ReservationView:
    return ReservationView.model_validate_json(row)
