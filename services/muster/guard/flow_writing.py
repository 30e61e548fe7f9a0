"""Puts flow-control objects there: server-side apply, so that a second writer of the same does no harm."""

from collections.abc import Sequence

from muster.guard.core.flow import MANAGER, SCHEMA
from muster.guard.core.flow_plan import FlowPlan
from muster.kube.connection import KubeConnection
from muster.kube.errors import NotFoundError
from muster.kube.objects import JsonObject, name_of, text
from muster.kube.resources import FLOW_SCHEMAS, PRIORITY_LEVELS, Resource
from muster.kube.shapes import Patch, Writing


def resource_of(obj: JsonObject) -> Resource:
    """Of a FlowSchema or PriorityLevelConfiguration."""
    return FLOW_SCHEMAS if text(obj, "kind") == SCHEMA else PRIORITY_LEVELS


async def write(connection: KubeConnection, plan: FlowPlan, *, dry_run: bool = False) -> None:
    """All writes, then all deletions. force: what somebody else changed by hand is taken back. Raises KubeError."""
    writing = Writing(field_manager=MANAGER, force=True, dry_run=dry_run, strict=True)
    for obj in plan.writes:
        await connection.patch(resource_of(obj), name_of(obj), obj, kind=Patch.APPLY, writing=writing)
    if dry_run:
        return
    await remove(connection, plan.deletes)


async def remove(connection: KubeConnection, objects: Sequence[JsonObject]) -> None:
    """Delete objects; those that are gone already are no error. Raises KubeError."""
    for obj in objects:
        try:
            await connection.delete(resource_of(obj), name_of(obj))
        except NotFoundError:
            continue
