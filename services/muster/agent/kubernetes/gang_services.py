"""Services of gangs that nobody deleted: their leader ended between the exit of the gang and their deletion.

Most go with the pod that owns them; those of gangs that may lose any pod have no owner. They are few, so that nothing
watches them: whoever begins to lead asks for them once.
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
"""How often it is looked whether all was seen."""
TRIES_MAX = 5
"""Of one page; then the next leader does it."""


@dataclass(frozen=True, slots=True)
class DeleteLeftService(Purpose):
    """Nobody needs a Service any more."""

    namespace: str
    name: str


class GangServicesPart(Part):
    """Implements `parts.Part`. seed: of this process."""

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
        """Once; what it asks for is worked by the sink."""
        while self._may_list:
            await asyncio.sleep(LOOK_S)
            if self._cluster.gangs.is_synced:
                await self._look(connection)
                return

    def look_at(self, service: JsonObject) -> None:
        """Have it deleted if it is the Service of an attempt that is over. Only when the log was folded to its head."""
        attempt, where = attempt_of(strings(service, "metadata", "labels")), (namespace_of(service), name_of(service))
        if attempt is None or attempt in self._cluster.gangs.attempts:
            return
        if where[1] != attempt_name(*attempt) or not self._cluster.has_namespace(where[0]):
            return  # labels are copied easily

        self._cluster.worklist.ask(DeleteLeftService(*where), Delete(Kind.SERVICES, *where, uid_of(service)))

    def answered(self, purpose: DeleteLeftService, outcome: Outcome, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Asker`."""
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
        """Services, and the token of the next page; None if the API server does not give it."""
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
        self._cluster.notes.say(f"services of gangs that are over were not looked for: {told}")
        return None
