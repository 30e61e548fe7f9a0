"""Delete Services of gangs that remained because a leader ended between a gang's exit and their deletion.

Most go with the pod that owns them; those of gangs that may lose any pod have no owner. They are few, so they are not
watched: a new leader lists them once.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.calls import CONFLICT, NOT_FOUND, Delete, Kind, Outcome, Refused
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.core.kubernetes.names import attempt_name
from muster.agent.core.kubernetes.projections import attempt_of
from muster.agent.core.kubernetes.worklist import Purpose
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.parts import Part, Watch
from muster.core import Instant
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeError, backoff_s
from muster.kube.objects import JsonObject, name_of, namespace_of, strings, uid_of
from muster.kube.permissions import Feature
from muster.kube.resources import SERVICES
from muster.kube.shapes import Selection

LOOK_S = 0.5
"""Between two checks whether all pods were seen."""
TRIES_MAX = 5
"""Attempts for one page; then the next leader tries."""


@dataclass(frozen=True, slots=True)
class DeleteLeftService(Purpose):
    """Delete a Service of an attempt that is over."""

    namespace: str
    name: str


class GangServicesPart(Part):
    """Deletes orphaned Services of gangs; `seed` is the process'."""

    features = (Feature.NETWORKS,)

    def __init__(self, cluster: KubernetesCluster, *, seed: int = 0) -> None:
        self._cluster = cluster
        cluster.worklist.serve(self, DeleteLeftService)
        self._select = Selection(labels=f"{names.CLUSTER_LABEL}={cluster.name},{names.JOB_LABEL}")
        self._seed = seed
        self._may_list = False

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        self._may_list = abilities.has(Feature.NETWORKS)
        return ()

    @override
    async def run(self, connection: KubeConnection) -> None:
        """List them once; the sink works the resulting deletions."""
        while self._may_list:
            await asyncio.sleep(LOOK_S)
            if self._cluster.gangs.is_synced:
                await self._look(connection)
                return

    def look_at(self, service: JsonObject) -> None:
        """Delete the Service if its attempt is over. Call it only after the log was folded to its head."""
        attempt, where = attempt_of(strings(service, "metadata", "labels")), (namespace_of(service), name_of(service))
        if attempt is None or attempt in self._cluster.gangs.attempts:
            return
        if where[1] != attempt_name(*attempt) or not self._cluster.has_namespace(where[0]):
            return  # not Muster's: labels alone may be copied

        self._cluster.worklist.ask(DeleteLeftService(*where), Delete(Kind.SERVICES, *where, uid_of(service)))

    def answered(self, purpose: DeleteLeftService, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - the port
        """Note a deletion that was refused."""
        if isinstance(outcome, Refused) and outcome.code not in (NOT_FOUND, CONFLICT):
            self._cluster.notes.say(f"service {purpose.name} cannot be deleted: {outcome.message}")

    async def _look(self, connection: KubeConnection) -> None:
        token = ""
        while (page := await self._page(connection, token)) is not None:
            services, token = page
            for service in services:
                self.look_at(service)
            if not token:
                return

    async def _page(self, connection: KubeConnection, token: str) -> tuple[list[JsonObject], str] | None:
        """Return the Services of a page and the next token; None if the API server does not return it."""
        for attempt in range(1, TRIES_MAX + 1):
            try:
                page = await connection.list_page(
                    SERVICES, select=self._select, continue_token=token, metadata_only=True
                )
            except KubeError as error:
                told = str(error)
                await asyncio.sleep(backoff_s(attempt, seed=self._seed))
            else:
                return page.items, page.continue_token
        self._cluster.notes.say(f"cannot list services of ended gangs: {told}")
        return None
