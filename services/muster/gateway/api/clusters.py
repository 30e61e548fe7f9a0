"""Clusters: what each is, what it can do, and how full it is."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, list_of
from muster.gateway.cells import cluster_views
from muster.gateway.context import AppContext, principal_of, whole_context_of
from muster.gateway.ports import UnreachableError
from muster.schemas.apiserver import ClusterView
from muster.schemas.members import AskFederation, FederationView

router = APIRouter(tags=["clusters"])


@router.get(
    "/v1/clusters",
    summary="The clusters that this gateway serves",
    **describe({200: ("By name", list_of("clusters", ClusterView))}, refusals=(401, 503)),
)
async def list_clusters(request: Request) -> Response:
    """From the schedulers, as they know it now: who picks GPUs, how parts of one are had, which APIs are lacking; and
    from the federation whether it gives them jobs.
    """
    principal_of(request)
    context = whole_context_of(request)
    found = await cluster_views(context.cells) if len(context.cells) > 1 else (await context.scheduler.cluster(),)
    found = await _with_states(context, found)
    return answers.rows("clusters", (one.model_dump_json().encode() for one in sorted(found, key=lambda one: one.name)))


async def _with_states(context: AppContext, found: Sequence[ClusterView]) -> tuple[ClusterView, ...]:
    """Where the federation has them; as they are if it does not answer."""
    try:
        told = await context.leaders.ask("federation", "federation", AskFederation(), FederationView)
    except UnreachableError:
        return tuple(found)
    states = {member.name: member.state.value for member in told.clusters}
    return tuple(one.model_copy(update={"state": states.get(one.name, one.state)}) for one in found)
