"""What the guard watches of a cluster: flow control and, by projection, pods. One list each, then changes alone."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

from muster.guard.core.look import Pods
from muster.guard.core.pods import PodView, project_pod, tally
from muster.guard.limits import SYNC_POLL_S, SYNC_S_MAX
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, mapping, name_of, strings
from muster.kube.reflector import Reflector
from muster.kube.resources import FLOW_SCHEMAS, PODS, PRIORITY_LEVELS
from muster.kube.sharing import OF_THIS_PROCESS

LACKING_FLOW: Final = "flow control cannot be read: {why}"
LACKING_PODS: Final = "pods cannot be read, so workloads with many secrets are not seen: {why}"


class Watches:
    """Reflectors of one connection. on_flow: called when a flow-control object changed."""

    def __init__(self, connection: KubeConnection, *, on_flow: Callable[[], None], seed: int = 0) -> None:
        self._on_flow = on_flow
        self._levels = Reflector(
            connection, PRIORITY_LEVELS, project=_level, on_changes=self._flow_changed, seed=seed + 1
        )
        self._schemas = Reflector(
            connection, FLOW_SCHEMAS, project=_schema, on_changes=self._flow_changed, seed=seed + 2
        )
        self._pods = Reflector(
            connection,
            PODS,
            project=project_pod,
            on_changes=self._pods_changed,
            seed=seed + 3,
            shared=OF_THIS_PROCESS,  # the agent follows them, too
        )
        self._tallied: Pods | None = None

    def running(self) -> list[Coroutine[None, None, None]]:
        """What has to run as long as this is used."""
        return [self._levels.run(), self._schemas.run(), self._pods.run()]

    async def synced(self) -> None:
        """Until of each the first state, or the first refusal, is there, or it takes too long; looks say what lacks."""
        every = (self._levels, self._schemas, self._pods)
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_S_MAX):
                while not all(one.synced or one.figures.failures for one in every):  # noqa: ASYNC110 - no event for both
                    await asyncio.sleep(SYNC_POLL_S)

    def flow_objects(self) -> list[JsonObject] | None:
        """Every FlowSchema and PriorityLevelConfiguration; None if they are not known."""
        if not (self._levels.synced and self._schemas.synced):
            return None
        return [obj for held in (self._levels, self._schemas) for _, obj in held.items()]

    def pods(self, *, secrets_min: int) -> Pods | None:
        """What all pods tell together; None if they are not known. Computed anew only after a change."""
        if not self._pods.synced:
            return None
        if self._tallied is None:
            self._tallied = tally((view for _, view in self._pods.items()), secrets_min=secrets_min)
        return self._tallied

    def lacking(self) -> list[str]:
        """Sentences on what cannot be seen."""
        found = []
        if self.flow_objects() is None:
            why = self._levels.figures.last_error or self._schemas.figures.last_error or "no answer yet"
            found.append(LACKING_FLOW.format(why=why))
        if not self._pods.synced:
            found.append(LACKING_PODS.format(why=self._pods.figures.last_error or "no answer yet"))
        return found

    async def _flow_changed(self, changes: list[Change[JsonObject]]) -> None:  # noqa: ARG002 - the port
        self._on_flow()

    async def _pods_changed(self, changes: list[Change[PodView]]) -> None:  # noqa: ARG002 - the port
        self._tallied = None


def _level(raw: JsonObject) -> JsonObject:
    return _kept(raw, "PriorityLevelConfiguration")


def _schema(raw: JsonObject) -> JsonObject:
    return _kept(raw, "FlowSchema")


def _kept(raw: JsonObject, kind: str) -> JsonObject:
    """What flow_plan reads; items of a list do not say their kind."""
    labels = dict(strings(raw, "metadata", "labels"))
    return {"kind": kind, "metadata": {"name": name_of(raw), "labels": labels}, "spec": mapping(raw, "spec")}
