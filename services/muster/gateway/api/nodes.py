"""Routes of nodes (cordon, drain, resume) and of their conditions (health's view, verification, the brake).

Only operators change nodes; no job is killed by a change.
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
"""How the reasons of a node name the state."""

_Node = Annotated[str, Path(description="Name of the node")]
_CHANGED = accepted("Requested; the current node", NodeView) | refusals(403)

conditions_router = APIRouter(tags=["conditions"], responses=refusals(404))
BRAKE = "brake"
_CONDITION_CHANGED = accepted("Requested; the current conditions", ConditionsAnswer) | refusals(403)


@router.get(
    "/v1/nodes", summary="List nodes", response_model=listing("nodes", NodeView), response_description="By name"
)
async def list_nodes(context: EveryClusterContext) -> Response:
    """List the nodes from the read model, else from the scheduler."""
    try:
        rows = await context.view.nodes()
    except UnreachableError:
        rows = ()
    return answers.rows("nodes", rows or await context.scheduler.nodes())


def _add_change(ask: str, said: set[str], *, summary: str, description: str) -> None:
    """Add the route of a node change. said: the operator states in the node's reasons that show that it was made."""

    @router.post(
        f"/v1/nodes/{{node}}/{ask}",
        name=ask,
        summary=summary,
        description=description,
        response_description="The change was made",
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
    summary="Cordon a node: place no new jobs on it",
    description="Running jobs continue. A draining node becomes only cordoned.",
)
_add_change(
    "drain",
    {DRAINED},
    summary="Drain a node: place no new jobs on it, and move jobs that allow it",
    description="Preemptible jobs that checkpoint continue elsewhere after their time slice; other jobs finish.",
)
_add_change(
    "resume",
    set(),
    summary="Resume a node: place jobs on it again",
    description="Removes cordon and drain by operators; a drain by a service remains, as the reasons show.",
)


async def _node(context: AppContext, name: str) -> NodeView | None:
    """Return the node as the scheduler has it; None if it does not exist. Raises UnreachableError."""
    views = map(NodeView.model_validate_json, await context.scheduler.nodes())
    return next((view for view in views if view.name == name), None)


@conditions_router.get(
    "/v1/conditions",
    summary="List unhealthy nodes and GPUs, and the brake",
    response_description="The current conditions",
)
async def conditions(context: FirstClusterContext) -> ConditionsAnswer:
    """Return the conditions from health: phases with reasons, recently ended conditions, counts of codes."""
    return await _asked(context)


@conditions_router.get(
    "/v1/conditions/{node}",
    summary="Show the conditions and recent observations of a node",
    response_description="The current conditions",
)
async def condition(context: FirstClusterContext, node: _Node) -> ConditionsAnswer:
    """Return a node's conditions and newest observations; also of a healthy node."""
    return await _of_node(context, node)


@conditions_router.post(
    "/v1/conditions/{node}/verify",
    summary="Verify a repaired node and return it to service",
    response_description="The verification has started",
    responses=_CONDITION_CHANGED,
)
async def verify(
    context: FirstClusterContext,
    asked: Annotated[OperatorRequest, by_operator("verify nodes")],
    node: _Node,
    response: Response,
    *,
    trust: Annotated[Flag, Query(description="Skip the checks and mark the node healthy")] = False,
) -> ConditionsAnswer:
    """Return the node to service once its checks have passed; with `trust` at once."""
    before = await _of_node(context, node)
    payload = VerifyRequested(principal=asked.principal, cluster=before.cluster, reason=asked.reason, trust=trust)

    async def look() -> ConditionsAnswer | None:
        found = await _of_node(context, node)
        return found if found.conditions != before.conditions or not before.conditions else None

    draft = Draft("node", node, "verify-requested", payload)
    return await requested_change(context, asked, draft, look, before=before, response=response)


@conditions_router.post(
    "/v1/brake/reset",
    summary="Reset the brake, so that health acts again",
    response_description="The brake is reset",
    responses=_CONDITION_CHANGED,
)
async def reset(
    context: FirstClusterContext,
    asked: Annotated[OperatorRequest, by_operator("reset the brake")],
    response: Response,
    *,
    skip: Annotated[Flag, Query(description="Drop the actions that waited for the reset")] = False,
) -> ConditionsAnswer:
    """Reset the brake. If as many nodes are still unhealthy, it trips again."""
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
