"""How nodes and GPUs are: what health sees and does, and what people tell it."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from muster.core import Draft
from muster.gateway.api.dependencies import FirstClusterContext
from muster.gateway.api.openapi import accepted, refusals
from muster.gateway.api.parameters import Flag, OperatorRequest, by_operator
from muster.gateway.changes import changed_or_before
from muster.gateway.context import AppContext
from muster.gateway.problems import not_found
from muster.schemas.conditions import AskConditions, ConditionsAnswer
from muster.schemas.facts.health import BrakeResetRequested, VerifyRequested

router = APIRouter(tags=["conditions"], responses=refusals(404))
NAME_CHARS_TOLD = 100
BRAKE = "brake"

_Node = Annotated[str, Path(description="Name of the node")]
_CHANGED = accepted("Requested; as it is now", ConditionsAnswer) | refusals(403)


@router.get(
    "/v1/conditions", summary="Nodes and GPUs that are not healthy, and the brake", response_description="As of now"
)
async def conditions(context: FirstClusterContext) -> ConditionsAnswer:
    """From health: phases with reasons, what ended lately, how often which code came."""
    return await _asked(context)


@router.get(
    "/v1/conditions/{node}",
    summary="One node: its faults, and what was seen of it lately",
    response_description="As of now",
)
async def condition(context: FirstClusterContext, node: _Node) -> ConditionsAnswer:
    """Newest observations first; also of a node that is healthy."""
    return await _of_node(context, node)


@router.post(
    "/v1/conditions/{node}/verify",
    summary="Check a node that a person looked after, and give it back",
    response_description="It is so",
    responses=_CHANGED,
)
async def verify(
    context: FirstClusterContext,
    asked: Annotated[OperatorRequest, by_operator("verify nodes")],
    node: _Node,
    response: Response,
    *,
    trust: Annotated[Flag, Query(description="Without checks: the person's word")] = False,
) -> ConditionsAnswer:
    """It comes back once its checks have passed; with `trust` at once."""
    before = await _of_node(context, node)
    payload = VerifyRequested(principal=asked.principal, cluster=before.cluster, reason=asked.reason, trust=trust)
    draft = Draft("node", node, "verify-requested", payload, trace=asked.trace(node))
    await context.log.request_operation(draft, key=asked.key)

    async def look() -> ConditionsAnswer | None:
        found = await _of_node(context, node)
        return found if found.conditions != before.conditions or not before.conditions else None

    return await changed_or_before(context, look, before=before, response=response)


@router.post(
    "/v1/brake/reset",
    summary="Let health act again after its brake tripped",
    response_description="It is so",
    responses=_CHANGED,
)
async def reset(
    context: FirstClusterContext,
    asked: Annotated[OperatorRequest, by_operator("reset the brake")],
    response: Response,
    *,
    skip: Annotated[Flag, Query(description="Drop what waited for it")] = False,
) -> ConditionsAnswer:
    """Only a person does this. If as much is broken still, the brake trips again."""
    before = await _asked(context)
    payload = BrakeResetRequested(principal=asked.principal, cluster=before.cluster, reason=asked.reason, skip=skip)
    draft = Draft("health", BRAKE, "brake-reset-requested", payload, trace=asked.trace(BRAKE))
    await context.log.request_operation(draft, key=asked.key)

    async def look() -> ConditionsAnswer | None:
        found = await _asked(context)
        is_reset = found.brake.tripped is None or found.brake.tripped_at != before.brake.tripped_at
        return found if is_reset else None

    return await changed_or_before(context, look, before=before, response=response)


async def _asked(context: AppContext, node: str = "") -> ConditionsAnswer:
    answer = await context.leaders.ask("health", "conditions", AskConditions(node=node), ConditionsAnswer)
    return answer.model_copy(update={"cluster": context.cluster})


async def _of_node(context: AppContext, node: str) -> ConditionsAnswer:
    answer = await _asked(context, node)
    if not answer.known:
        raise not_found("node", node[:NAME_CHARS_TOLD])
    return answer
