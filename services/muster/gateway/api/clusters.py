"""Clusters: what each is, what it can do, and how full it is."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, list_of
from muster.gateway.house import house_of, principal_of
from muster.schemas.apiserver import ClusterView

router = APIRouter(tags=["clusters"])


@router.get(
    "/v1/clusters",
    summary="The clusters that this gateway serves",
    **describe({200: ("By name", list_of("clusters", ClusterView))}, refusals=(401, 503)),
)
async def list_clusters(request: Request) -> Response:
    """From the scheduler, as it knows it now: who picks GPUs, how parts of one are had, which APIs are lacking."""
    principal_of(request)
    cluster = await house_of(request).scheduler.cluster()
    return answers.rows("clusters", (cluster.model_dump_json().encode(),))
