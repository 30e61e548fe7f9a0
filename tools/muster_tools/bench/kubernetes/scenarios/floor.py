"""The floor: a client that knows the place of every pod beforehand, creates it and binds it. Nobody can be faster.

It is the client that Muster's agent is: the same user with the same permissions, under the same flow control, since
the floor is to be what can be reached from within a cluster. Its pods run later than they are bound: while it takes
most of the API server, those who play the kubelets lag behind.
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
"""The scheduler that the pods name: there is none."""
NOTE = "creates and binds as the user that Muster's agent is: what a client within a cluster can reach"


class Floor:
    """The scenario."""

    contender = Contender.FLOOR

    def options(self, plan: Plan) -> PlaneOptions:
        """No scheduler."""
        del plan
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0, users=USERS)

    def shape(self, plan: Plan) -> NodeShape:
        """With a device plugin."""
        del plan
        return NodeShape()

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[Running]:
        """Only its permissions are needed."""
        await create_all(stage.client, rights())
        async with stage.plane.client(USER, connections=stage.plan.connections) as client:
            yield _Blind(stage, client)


class _Blind(OwnPods):
    def __init__(self, stage: Stage, client: aiohttp.ClientSession) -> None:
        super().__init__(stage, _made, notes=(NOTE,))
        self._client = client

    async def submit(self, seen: Seen) -> None:
        """Each worker creates a pod and binds it, then the next."""
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
