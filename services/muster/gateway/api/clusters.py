"""Clusters: what each is, what it can do, and how full it is."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, list_of
from muster.gateway.cells import cluster_views
from muster.gateway.house import house_of, principal_of
from muster.schemas.apiserver import ClusterView

router = APIRouter(tags=["clusters"])


@router.get(
    "/v1/clusters",
    summary="The clusters that this gateway serves",
    **describe({200: ("By name", list_of("clusters", ClusterView))}, refusals=(401, 503)),
)
async def list_clusters(request: Request) -> Response:
    """From the schedulers, as they know it now: who picks GPUs, how parts of one are had, which APIs are lacking."""
    principal_of(request)
    house = house_of(request)
    found = await cluster_views(house.cells) if len(house.cells) > 1 else (await house.scheduler.cluster(),)
    return answers.rows("clusters", (one.model_dump_json().encode() for one in sorted(found, key=lambda one: one.name)))
