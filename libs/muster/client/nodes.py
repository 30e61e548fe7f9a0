"""Nodes, and closing them: a part of `Muster`."""

from collections.abc import Sequence
from urllib.parse import quote

from pydantic import BaseModel

from muster.client.bodies import own_key
from muster.client.http import Door
from muster.schemas.views import NodeView


class _Nodes(BaseModel):
    nodes: list[NodeView]


class NodeMethods:
    """Every method raises RefusedError or UnreachableError; NotFoundError if there is no such node.

    cluster: whose node, where several clusters have one of that name.
    """

    _door: Door

    async def nodes(self) -> Sequence[NodeView]:
        """All nodes, by name."""
        return _Nodes.model_validate_json(await self._door.ask("GET", "/v1/nodes")).nodes

    async def cordon(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        """Place nothing new there (operators); what runs there runs on. The node: its `reasons` say when it is so."""
        return await self._close(node, "cordon", reason=reason, cluster=cluster)

    async def drain(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        """As `cordon`; besides, jobs that checkpoint and may be preempted go on elsewhere, after their slice."""
        return await self._close(node, "drain", reason=reason, cluster=cluster)

    async def resume(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        """Take back what people asked of it (operators); what services withhold it for stands."""
        return await self._close(node, "resume", reason=reason, cluster=cluster)

    async def _close(self, node: str, ask: str, *, reason: str, cluster: str) -> NodeView:
        params = {name: value for name, value in (("reason", reason), ("cluster", cluster)) if value}
        where = f"/v1/nodes/{quote(node, safe='')}/{ask}"
        return NodeView.model_validate_json(await self._door.ask("POST", where, params=params, headers=own_key()))
