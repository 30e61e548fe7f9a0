"""Queues: look, and change."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, header, list_of, path, query, reference
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.house import House, body_of, flag_of, house_of, principal_of
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid
from muster.schemas.access import Role
from muster.schemas.base import parse_request
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.views import QueueView

router = APIRouter(tags=["queues"])


@router.get(
    "/v1/queues",
    summary="All queues",
    **describe(
        {200: ("By name", list_of("queues", QueueView))},
        refusals=(401, 422, 503),
        parameters=(query("shares", "With `share` and `used_share`: the scheduler is asked", kind="boolean"),),
    ),
)
async def list_queues(request: Request) -> Response:
    """From the read model, else from the scheduler. Shares are left at 0 while the scheduler is away."""
    principal_of(request)
    house = house_of(request)
    with_shares = flag_of(request, "shares")
    rows = await _queues(house)
    return answers.rows("queues", await _with_shares(house, rows) if with_shares else rows)


@router.put(
    "/v1/queues/{name}",
    summary="Make or change a queue",
    **describe(
        {
            200: ("The queue is so", reference(QueueView)),
            202: ("Requested; the scheduler has not answered yet", reference(QueueSpec)),
        },
        refusals=(400, 401, 403, 413, 422, 503),
        parameters=(path("name", "Name of the queue"), header("Idempotency-Key", "The same key is the same request")),
        body=QueueSpec,
    ),
)
async def put_queue(request: Request) -> Response:
    """Operators only. Asks the scheduler first whether the queue may be so."""
    principal = principal_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="change queues")
    house = house_of(request)
    spec = parse_request(QueueSpec, await body_of(request))
    if spec.name != request.path_params["name"]:
        raise invalid("the name in the body differs from the path's", field="name", cure="Send the same name.")
    try:
        verdict = await house.scheduler.queue_check(spec)
    except UnreachableError:
        verdict = None  # the scheduler decides when it folds the request
    if verdict is not None and verdict.field:
        raise invalid(verdict.reason, field=verdict.field)
    change = QueueChangeRequested(spec=spec, principal=principal.name)
    await house.log.request_queue(change, key=key_of(request))

    async def look() -> bytes | None:
        return next((row for row in await _queues(house) if _spec_of(row) == spec), None)

    changed = await until_so(house, look)
    return answers.encoded(changed) if changed is not None else answers.model(spec, status=202)


async def _queues(house: House) -> tuple[bytes, ...]:
    try:
        rows = await house.view.queues()
    except UnreachableError:
        rows = ()
    return rows or await house.scheduler.queues()


async def _with_shares(house: House, rows: tuple[bytes, ...]) -> tuple[bytes, ...]:
    try:
        told = [QueueView.model_validate_json(row) for row in await house.scheduler.queues()]
    except UnreachableError:
        return rows
    shares = {queue.name: {"share": queue.share, "used_share": queue.used_share} for queue in told}
    shown = (QueueView.model_validate_json(row) for row in rows)
    return tuple(one.model_copy(update=shares.get(one.name)).model_dump_json().encode() for one in shown)


def _spec_of(row: bytes) -> QueueSpec:
    """The queue as it was asked for; of a row that does not tell it, as far as it can be seen."""
    view = QueueView.model_validate_json(row)
    return view.spec or QueueSpec.model_validate(view.model_dump(exclude={"spec"}))
