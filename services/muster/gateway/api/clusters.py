"""Clusters: what each is, what it can do, how full it is, and how its API servers are."""

from collections.abc import Sequence

from fastapi import APIRouter

from muster.gateway.api.dependencies import Caller, FirstClusterContext, WholeContext
from muster.gateway.api.openapi import listing, refusals
from muster.gateway.cells import cluster_views
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.members import AskFederation, FederationView

router = APIRouter(tags=["clusters"])


@router.get(
    "/v1/apiserver",
    summary="The guard's report on the API servers",
    response_description="As of its newest look",
    responses=refusals(404),
)
async def report(context: FirstClusterContext) -> ApiServerReport:
    """From the guard: memory of each replica, who lists, flow control, advice. A simulated cluster has none of it."""
    return await context.guard.report()


@router.get(
    "/v1/clusters",
    summary="The clusters that this gateway serves",
    response_model=listing("clusters", ClusterView),
    response_description="By name",
    responses=refusals(),
)
async def list_clusters(_: Caller, context: WholeContext) -> dict[str, list[ClusterView]]:
    """From the schedulers, as they know it now: who picks GPUs, how parts of one are had, which APIs are lacking; and
    from the federation whether it gives them jobs.
    """
    found = await cluster_views(context.cells) if len(context.cells) > 1 else (await context.scheduler.cluster(),)
    found = await _with_states(context, found)
    return {"clusters": sorted(found, key=lambda one: one.name)}


async def _with_states(context: AppContext, found: Sequence[ClusterView]) -> tuple[ClusterView, ...]:
    """Where the federation has them; as they are if it does not answer."""
    try:
        told = await context.leaders.ask("federation", "federation", AskFederation(), FederationView)
    except UnreachableError:
        return tuple(found)
    states = {member.name: member.state.value for member in told.clusters}
    return tuple(one.model_copy(update={"state": states.get(one.name, one.state)}) for one in found)
