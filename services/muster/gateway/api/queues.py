"""Routes of queues: list, create and change."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from muster.core import Draft
from muster.gateway import answers
from muster.gateway.api.changes import until_so
from muster.gateway.api.dependencies import ONLY_CLUSTER, Context, Route, context_of, needs
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, parameter, read_by_handler, refusals
from muster.gateway.api.parameters import IdempotencyKey, JsonBody, read_flag, read_here
from muster.gateway.authorise import Principal
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid
from muster.schemas.access import Role
from muster.schemas.base import Wire
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.queries import QUEUES_MAX
from muster.schemas.views import QueueView

router = APIRouter(route_class=Route, tags=["queues"])
_Operator = Annotated[Principal, needs(Role.OPERATOR, verb="change queues")]
_ROWS = listing("queues", QueueView)


class Queues(Wire):
    """Body of a change of several queues; a parent comes before its children."""

    queues: Annotated[tuple[QueueSpec, ...], Field(min_length=1, max_length=QUEUES_MAX)]


@router.get(
    "/v1/queues",
    summary="List queues",
    response_model=_ROWS,
    response_description="By name",
    responses=refusals(404),
    openapi_extra=read_by_handler(
        parameter("shares", "Include `share` and `used_share`, which the scheduler computes", kind="boolean"),
        parameter("cluster", ONLY_CLUSTER),
    ),
)
async def list_queues(request: Request) -> Response:
    """List the queues from the read model, else from the scheduler. Without the scheduler, shares are 0."""
    context = context_of(request)
    with_shares = read_here(request.query_params.get("shares"), read_flag, field="shares", default=False)
    rows = await _queues(context)
    return answers.rows("queues", await _with_shares(context, rows) if with_shares else rows)


@router.put(
    "/v1/queues",
    summary="Create or change several queues, all or none",
    response_model=_ROWS,
    response_description="All queues were changed",
    responses=accepted("Requested; the queues that were changed already", _ROWS) | refusals(*OF_BODIES, 403),
)
async def put_queues(
    operator: _Operator, context: Context, body: Annotated[Queues, Depends(JsonBody(Queues))], key: IdempotencyKey
) -> Response:
    """Create or change several queues; operators only. Each is checked with those before it; one refusal refuses
    all."""
    await _refuse_what_may_not_be(context, body.queues)
    for number, spec in enumerate(body.queues, start=1):
        await context.log.request(_change(spec, operator), key=f"{key}-{number}")
    wanted = {spec.name: spec for spec in body.queues}

    async def look() -> tuple[bytes, ...] | None:
        found = await _those_that_are(context, wanted)
        return found if len(found) == len(wanted) else None

    changed = await until_so(context, look)
    if changed is not None:
        return answers.rows("queues", changed)
    return answers.rows("queues", await _those_that_are(context, wanted), status=202)


@router.put(
    "/v1/queues/{name}",
    summary="Create or change a queue",
    response_model=QueueView,
    response_description="The queue was changed",
    responses=accepted("Requested; the scheduler has not answered yet", QueueSpec) | refusals(*OF_BODIES, 403),
)
async def put_queue(
    operator: _Operator,
    context: Context,
    spec: Annotated[QueueSpec, Depends(JsonBody(QueueSpec))],
    name: Annotated[str, Path(description="Name of the queue")],
    key: IdempotencyKey,
) -> Response:
    """Create or change a queue; operators only. The scheduler checks it first."""
    if spec.name != name:
        raise invalid(
            "the name in the body differs from the name in the path", field="name", cure="Send the same name in both."
        )
    await _refuse_what_may_not_be(context, (spec,))
    await context.log.request(_change(spec, operator), key=key)

    async def look() -> bytes | None:
        return next(iter(await _those_that_are(context, {spec.name: spec})), None)

    changed = await until_so(context, look)
    return answers.encoded(changed) if changed is not None else answers.model(spec, status=202)


async def _refuse_what_may_not_be(context: AppContext, specs: Sequence[QueueSpec]) -> None:
    """Raise ProblemError (422) with the wrong field, and with the queue if there are several."""
    for number, spec in enumerate(specs):
        try:
            verdict = await context.scheduler.queue_check(spec, accepted=specs[:number])
        except UnreachableError:
            return  # the scheduler decides when it folds the requests
        if verdict.field and len(specs) > 1:
            raise invalid(f"queue {spec.name}: {verdict.reason}", field=f"queues.{number}.{verdict.field}")
        if verdict.field:
            raise invalid(verdict.reason, field=verdict.field)


def _change(spec: QueueSpec, operator: Principal) -> Draft:
    return Draft("queue", spec.name, "change-requested", QueueChangeRequested(spec=spec, principal=operator.name))


async def _those_that_are(context: AppContext, wanted: Mapping[str, QueueSpec]) -> tuple[bytes, ...]:
    """Return the rows of the queues that match their wanted specification."""
    try:
        rows = await _queues(context)
    except UnreachableError:
        return ()
    return tuple(row for row in rows if (spec := _spec_of(row)) == wanted.get(spec.name))


async def _queues(context: AppContext) -> tuple[bytes, ...]:
    try:
        rows = await context.view.queues()
    except UnreachableError:
        rows = ()
    return rows or await context.scheduler.queues()


async def _with_shares(context: AppContext, rows: tuple[bytes, ...]) -> tuple[bytes, ...]:
    try:
        told = [QueueView.model_validate_json(row) for row in await context.scheduler.queues()]
    except UnreachableError:
        return rows
    shares = {queue.name: queue for queue in told}
    shown = [QueueView.model_validate_json(row) for row in rows]
    for queue in shown:
        if (known := shares.get(queue.name)) is not None:
            queue.share, queue.used_share = known.share, known.used_share
    return tuple(queue.encoded() for queue in shown)


def _spec_of(row: bytes) -> QueueSpec:
    """Return the requested specification of a queue; if a row has none, the fields that the row shows."""
    view = QueueView.model_validate_json(row)
    return view.spec or QueueSpec.model_validate_json(row)
