"""Queues: look, and change."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from muster.gateway.api import answers
from muster.gateway.api.describe import ONLY_CLUSTER, describe, header, list_of, path, query, reference, tree_of
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, body_of, context_of, flag_of, principal_of
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid
from muster.schemas.access import Role
from muster.schemas.base import Wire, parse_request
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.queries import QUEUES_MAX
from muster.schemas.views import QueueView

router = APIRouter(tags=["queues"])
_KEY = header("Idempotency-Key", "The same key is the same request")


class Queues(Wire):
    """Body of a change of several queues: those above before those below."""

    queues: Annotated[tuple[QueueSpec, ...], Field(min_length=1, max_length=QUEUES_MAX)]


@router.get(
    "/v1/queues",
    summary="All queues",
    **describe(
        {200: ("By name", list_of("queues", QueueView))},
        refusals=(401, 404, 422, 503),
        parameters=(
            query("shares", "With `share` and `used_share`: the scheduler is asked", kind="boolean"),
            ONLY_CLUSTER,
        ),
    ),
)
async def list_queues(request: Request) -> Response:
    """From the read model, else from the scheduler. Shares are left at 0 while the scheduler is away."""
    principal_of(request)
    context = context_of(request)
    with_shares = flag_of(request, "shares")
    rows = await _queues(context)
    return answers.rows("queues", await _with_shares(context, rows) if with_shares else rows)


@router.put(
    "/v1/queues",
    summary="Make or change several queues, all of them or none",
    **describe(
        {
            200: ("All of them are so", list_of("queues", QueueView)),
            202: ("Requested; those that are so already", list_of("queues", QueueView)),
        },
        refusals=(400, 401, 403, 413, 422, 503),
        parameters=(_KEY,),
        body=tree_of("queues", QueueSpec, most=QUEUES_MAX),
    ),
)
async def put_queues(request: Request) -> Response:
    """Operators only. Each is checked as if those before it were there; one that may not be so refuses all of them."""
    principal = principal_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="change queues")
    context = context_of(request)
    specs = parse_request(Queues, await body_of(request)).queues
    await _refuse_what_may_not_be(context, specs)
    key = key_of(request)
    for number, spec in enumerate(specs, start=1):
        change = QueueChangeRequested(spec=spec, principal=principal.name)
        await context.log.request_queue(change, key=f"{key}-{number}")
    wanted = {spec.name: spec for spec in specs}

    async def look() -> tuple[bytes, ...] | None:
        found = await _those_that_are(context, wanted)
        return found if len(found) == len(wanted) else None

    changed = await until_so(context, look)
    if changed is not None:
        return answers.rows("queues", changed)
    return answers.rows("queues", await _those_that_are(context, wanted), status=202)


@router.put(
    "/v1/queues/{name}",
    summary="Make or change a queue",
    **describe(
        {
            200: ("The queue is so", reference(QueueView)),
            202: ("Requested; the scheduler has not answered yet", reference(QueueSpec)),
        },
        refusals=(400, 401, 403, 413, 422, 503),
        parameters=(path("name", "Name of the queue"), _KEY),
        body=QueueSpec,
    ),
)
async def put_queue(request: Request) -> Response:
    """Operators only. Asks the scheduler first whether the queue may be so."""
    principal = principal_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="change queues")
    context = context_of(request)
    spec = parse_request(QueueSpec, await body_of(request))
    if spec.name != request.path_params["name"]:
        raise invalid("the name in the body differs from the path's", field="name", cure="Send the same name.")
    await _refuse_what_may_not_be(context, (spec,))
    change = QueueChangeRequested(spec=spec, principal=principal.name)
    await context.log.request_queue(change, key=key_of(request))

    async def look() -> bytes | None:
        return next(iter(await _those_that_are(context, {spec.name: spec})), None)

    changed = await until_so(context, look)
    return answers.encoded(changed) if changed is not None else answers.model(spec, status=202)


async def _refuse_what_may_not_be(context: AppContext, specs: Sequence[QueueSpec]) -> None:
    """Raises ProblemError (422) that names the field, and the queue where there are several."""
    for number, spec in enumerate(specs):
        try:
            verdict = await context.scheduler.queue_check(spec, accepted=specs[:number])
        except UnreachableError:
            return  # the scheduler decides when it folds the requests
        if verdict.field and len(specs) > 1:
            raise invalid(f"queue {spec.name}: {verdict.reason}", field=f"queues.{number}.{verdict.field}")
        if verdict.field:
            raise invalid(verdict.reason, field=verdict.field)


async def _those_that_are(context: AppContext, wanted: Mapping[str, QueueSpec]) -> tuple[bytes, ...]:
    """The rows of queues that are as it is wanted."""
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
    """The queue as it was asked for; of a row that does not tell it, as far as it can be seen."""
    view = QueueView.model_validate_json(row)
    return view.spec or QueueSpec.model_validate_json(row)
