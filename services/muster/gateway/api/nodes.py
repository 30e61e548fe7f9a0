"""Nodes and how they are: cordon, drain, resume; what health sees and does, and what people tell it.

Operators close nodes; no job is killed for it.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from muster.core import Draft
from muster.gateway import answers
from muster.gateway.api.changes import requested_change
from muster.gateway.api.dependencies import EveryClusterContext, FirstClusterContext
from muster.gateway.api.openapi import accepted, listing, refusals
from muster.gateway.api.parameters import Flag, OperatorRequest, by_operator
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import not_found
from muster.schemas.conditions import AskConditions, ConditionsAnswer
from muster.schemas.facts.health import BrakeResetRequested, VerifyRequested
from muster.schemas.facts.node import CordonRequested
from muster.schemas.views import NodeView

router = APIRouter(tags=["nodes"], responses=refusals(404))
NAME_CHARS_TOLD = 100
CORDONED, DRAINED = "cordoned", "drained"
"""How a node's reasons say it."""

_Node = Annotated[str, Path(description="Name of the node")]
_CHANGED = accepted("Requested; the node as it is now", NodeView) | refusals(403)

conditions_router = APIRouter(tags=["conditions"], responses=refusals(404))
BRAKE = "brake"
_CONDITION_CHANGED = accepted("Requested; as it is now", ConditionsAnswer) | refusals(403)


@router.get("/v1/nodes", summary="All nodes", response_model=listing("nodes", NodeView), response_description="By name")
async def list_nodes(context: EveryClusterContext) -> Response:
    """From the read model, else from the scheduler."""
    try:
        rows = await context.view.nodes()
    except UnreachableError:
        rows = ()
    return answers.rows("nodes", rows or await context.scheduler.nodes())


def _add_change(ask: str, said: set[str], *, summary: str, description: str) -> None:
    """Add the route of a change of a node. said: what the node's reasons say of people once it is so."""

    @router.post(
        f"/v1/nodes/{{node}}/{ask}",
        name=ask,
        summary=summary,
        description=description,
        response_description="It is so",
        responses=_CHANGED,
    )
    async def change(
        context: EveryClusterContext,
        asked: Annotated[OperatorRequest, by_operator(f"{ask} nodes")],
        node: _Node,
        response: Response,
    ) -> NodeView:
        before = await _node(context, node)
        if before is None:
            raise not_found("node", node[:NAME_CHARS_TOLD])
        payload = CordonRequested(principal=asked.principal, reason=asked.reason, cluster=before.cluster)

        async def look() -> NodeView | None:
            found = await _node(context, node)
            says = {one.what for one in found.reasons} & {CORDONED, DRAINED} if found is not None else set()
            return found if says == said else None

        draft = Draft("node", node, f"{ask}-requested", payload)
        return await requested_change(context, asked, draft, look, before=before, response=response)


_add_change(
    "cordon",
    {CORDONED},
    summary="Place nothing new on a node",
    description="What runs there runs on. A node that is being drained is only cordoned from then on.",
)
_add_change(
    "drain",
    {DRAINED},
    summary="Place nothing new on a node, and move jobs that allow it",
    description="Jobs that checkpoint and may be preempted go on elsewhere after their slice; the others finish.",
)
_add_change(
    "resume",
    set(),
    summary="Use a node again",
    description="Takes back what people asked; what services withhold it for stands, and the answer's reasons say so.",
)


async def _node(context: AppContext, name: str) -> NodeView | None:
    """The node as the scheduler has it; None if there is none. Raises UnreachableError if it does not answer."""
    views = map(NodeView.model_validate_json, await context.scheduler.nodes())
    return next((view for view in views if view.name == name), None)


@conditions_router.get(
    "/v1/conditions", summary="Nodes and GPUs that are not healthy, and the brake", response_description="As of now"
)
async def conditions(context: FirstClusterContext) -> ConditionsAnswer:
    """From health: phases with reasons, what ended lately, how often which code came."""
    return await _asked(context)


@conditions_router.get(
    "/v1/conditions/{node}",
    summary="One node: its faults, and what was seen of it lately",
    response_description="As of now",
)
async def condition(context: FirstClusterContext, node: _Node) -> ConditionsAnswer:
    """Newest observations first; also of a node that is healthy."""
    return await _of_node(context, node)


@conditions_router.post(
    "/v1/conditions/{node}/verify",
    summary="Check a node that a person looked after, and give it back",
    response_description="It is so",
    responses=_CONDITION_CHANGED,
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

    async def look() -> ConditionsAnswer | None:
        found = await _of_node(context, node)
        return found if found.conditions != before.conditions or not before.conditions else None

    draft = Draft("node", node, "verify-requested", payload)
    return await requested_change(context, asked, draft, look, before=before, response=response)


@conditions_router.post(
    "/v1/brake/reset",
    summary="Let health act again after its brake tripped",
    response_description="It is so",
    responses=_CONDITION_CHANGED,
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

    async def look() -> ConditionsAnswer | None:
        found = await _asked(context)
        is_reset = found.brake.tripped is None or found.brake.tripped_at != before.brake.tripped_at
        return found if is_reset else None

    draft = Draft("health", BRAKE, "brake-reset-requested", payload)
    return await requested_change(context, asked, draft, look, before=before, response=response)


async def _asked(context: AppContext, node: str = "") -> ConditionsAnswer:
    answer = await context.leaders.ask("health", "conditions", AskConditions(node=node), ConditionsAnswer)
    return answer.model_copy(update={"cluster": context.cluster})


async def _of_node(context: AppContext, node: str) -> ConditionsAnswer:
    answer = await _asked(context, node)
    if not answer.known:
        raise not_found("node", node[:NAME_CHARS_TOLD])
    return answer
