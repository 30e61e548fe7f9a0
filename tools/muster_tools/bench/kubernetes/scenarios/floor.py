"""The floor: a client that knows the node of every pod in advance, creates it and binds it. No scheduler is faster.

It uses the same user, permissions and flow control as Muster's agent, because the floor is what a client within a
cluster can reach. Its pods run later than they are bound: while the client takes most of the API server's time, the
simulated kubelets lag behind.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp

from muster_tools.bench.kubernetes.manifests import binding, pod, pod_name
from muster_tools.bench.kubernetes.observing import Seen
from muster_tools.bench.kubernetes.plan import Contender, Plan, packed
from muster_tools.bench.kubernetes.scenarios.ordinary import USER, USERS, rights
from muster_tools.bench.kubernetes.scenarios.scheduled import OwnPods
from muster_tools.bench.kubernetes.stage import Running, Stage
from muster_tools.local_kubernetes.fleet import create_all, post
from muster_tools.local_kubernetes.nodes import Manifest, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions

NOBODY = "nobody"
"""Scheduler name in the pods; no such scheduler runs."""
NOTE = "creates and binds as the user that Muster's agent is: what a client within a cluster can reach"


class Floor:
    """Scenario of a client that only creates and binds pods."""

    contender = Contender.FLOOR

    def options(self, plan: Plan) -> PlaneOptions:
        """Return options for a control plane without a scheduler."""
        del plan
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0, users=USERS)

    def shape(self, plan: Plan) -> NodeShape:
        """Return nodes with a device plugin."""
        del plan
        return NodeShape()

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[Running]:
        """Grant the client its permissions; no process is started."""
        await create_all(stage.client, rights())
        async with stage.plane.client(USER, connections=stage.plan.connections) as client:
            yield _Blind(stage, client)


class _Blind(OwnPods):
    def __init__(self, stage: Stage, client: aiohttp.ClientSession) -> None:
        super().__init__(stage, _made, notes=(NOTE,))
        self._client = client

    async def submit(self, seen: Seen) -> None:
        """Let each worker create a pod and bind it, then continue with the next."""
        stage, client = self._stage, self._client
        nodes = packed(stage.plan.gpus)
        waiting: Iterator[tuple[int, int]] = iter(enumerate(stage.plan.gpus))

        async def work() -> None:
            for number, gpus in waiting:
                name = pod_name(number)
                seen.created(name)
                await post(client, *_made(number, gpus))
                await post(client, *binding(name, stage.fleet.names[nodes[number] % len(stage.fleet.names)]))

        async with asyncio.TaskGroup() as group:
            for _ in range(stage.plan.connections):
                group.create_task(work())


def _made(number: int, gpus: int) -> tuple[str, Manifest]:
    return pod(number, gpus, scheduler=NOBODY)
