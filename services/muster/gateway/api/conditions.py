"""How nodes and GPUs are: what health sees and does, and what people tell it."""

from fastapi import APIRouter, Request, Response

from muster.core import Draft
from muster.gateway.api import answers
from muster.gateway.api.composability import KEY, REASON, TRACE, trace_of
from muster.gateway.api.describe import CLUSTER, describe, path, query, reference
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, context_of, flag_of, principal_of, reason_of
from muster.gateway.problems import not_found
from muster.schemas.access import Role
from muster.schemas.conditions import AskConditions, ConditionsAnswer
from muster.schemas.facts.health import BrakeResetRequested, VerifyRequested

router = APIRouter(tags=["conditions"])
NAME_CHARS_TOLD = 100
BRAKE = "brake"

_NODE = path("node", "Name of the node")
_TRUST = query("trust", "Without checks: the person's word", kind="boolean")
_ASKED: dict[int, tuple[str, dict[str, object] | None]] = {
    200: ("It is so", reference(ConditionsAnswer)),
    202: ("Requested; as it is now", reference(ConditionsAnswer)),
}


@router.get(
    "/v1/conditions",
    summary="Nodes and GPUs that are not healthy, and the brake",
    **describe({200: ("As of now", reference(ConditionsAnswer))}, refusals=(401, 404, 503), parameters=(CLUSTER,)),
)
async def conditions(request: Request) -> Response:
    """From health: phases with reasons, what ended lately, how often which code came."""
    principal_of(request)
    return answers.model(await _asked(context_of(request)))


@router.get(
    "/v1/conditions/{node}",
    summary="One node: its faults, and what was seen of it lately",
    **describe(
        {200: ("As of now", reference(ConditionsAnswer))}, refusals=(401, 404, 503), parameters=(_NODE, CLUSTER)
    ),
)
async def condition(request: Request) -> Response:
    """Newest observations first; also of a node that is healthy."""
    principal_of(request)
    return answers.model(await _of_node(context_of(request), str(request.path_params["node"])))


@router.post(
    "/v1/conditions/{node}/verify",
    summary="Check a node that a person looked after, and give it back",
    **describe(
        _ASKED,
        refusals=(401, 403, 404, 422, 503),
        parameters=(_NODE, CLUSTER, _TRUST, REASON, KEY, TRACE),
    ),
)
async def verify(request: Request) -> Response:
    """It comes back once its checks have passed; with `trust` at once."""
    principal, context = principal_of(request), context_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="verify nodes")
    node, reason, key = str(request.path_params["node"]), reason_of(request), key_of(request)
    before = await _of_node(context, node)
    payload = VerifyRequested(
        principal=principal.name, cluster=before.cluster, reason=reason, trust=flag_of(request, "trust")
    )
    asked = Draft("node", node, "verify-requested", payload, trace=trace_of(request, node, key))
    await context.log.request_operation(asked, key=key)

    async def look() -> ConditionsAnswer | None:
        found = await _of_node(context, node)
        return found if found.conditions != before.conditions or not before.conditions else None

    stands = await until_so(context, look)
    return answers.model(stands or before, status=202 if stands is None else 200)


@router.post(
    "/v1/brake/reset",
    summary="Let health act again after its brake tripped",
    **describe(
        _ASKED,
        refusals=(401, 403, 404, 422, 503),
        parameters=(CLUSTER, query("skip", "Drop what waited for it", kind="boolean"), REASON, KEY, TRACE),
    ),
)
async def reset(request: Request) -> Response:
    """Only a person does this. If as much is broken still, the brake trips again."""
    principal, context = principal_of(request), context_of(request)
    refuse_unless(principal, Role.OPERATOR, verb="reset the brake")
    reason, key, skip = reason_of(request), key_of(request), flag_of(request, "skip")
    before = await _asked(context)
    payload = BrakeResetRequested(principal=principal.name, cluster=before.cluster, reason=reason, skip=skip)
    asked = Draft("health", BRAKE, "brake-reset-requested", payload, trace=trace_of(request, BRAKE, key))
    await context.log.request_operation(asked, key=key)

    async def look() -> ConditionsAnswer | None:
        found = await _asked(context)
        is_reset = found.brake.tripped is None or found.brake.tripped_at != before.brake.tripped_at
        return found if is_reset else None

    stands = await until_so(context, look)
    return answers.model(stands or before, status=202 if stands is None else 200)


async def _asked(context: AppContext, node: str = "") -> ConditionsAnswer:
    answer = await context.leaders.ask("health", "conditions", AskConditions(node=node), ConditionsAnswer)
    return answer.model_copy(update={"cluster": context.cluster})


async def _of_node(context: AppContext, node: str) -> ConditionsAnswer:
    answer = await _asked(context, node)
    if not answer.known:
        raise not_found("node", node[:NAME_CHARS_TOLD])
    return answer
