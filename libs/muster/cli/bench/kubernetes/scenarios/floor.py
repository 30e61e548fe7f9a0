"""The floor: a client that knows the place of every pod beforehand, creates it and binds it. Nobody can be faster."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from muster.cli.bench.kubernetes.manifests import binding, pod, pod_name
from muster.cli.bench.kubernetes.observing import Seen
from muster.cli.bench.kubernetes.plan import Contender, Plan, packed
from muster.cli.bench.kubernetes.scenarios.own_pods import OwnPods
from muster.cli.bench.kubernetes.stage import Running, Stage
from muster.kube.local.fleet import post
from muster.kube.local.nodes import NodeShape
from muster.kube.local.options import CONTROLLERS, PlaneOptions

NOBODY = "nobody"
"""The scheduler that the pods name: there is none."""


class Floor:
    """The scenario."""

    contender = Contender.FLOOR

    def options(self, plan: Plan) -> PlaneOptions:
        """No scheduler."""
        del plan
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0)

    def shape(self, plan: Plan) -> NodeShape:
        """With a device plugin."""
        del plan
        return NodeShape()

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[Running]:
        """Nothing to start."""
        yield _Blind(stage, lambda number, gpus: pod(number, gpus, scheduler=NOBODY))


class _Blind(OwnPods):
    async def submit(self, seen: Seen) -> None:
        """Each worker creates a pod and binds it, then the next."""
        stage = self._stage
        nodes = packed(stage.plan.gpus)
        waiting: Iterator[tuple[int, int]] = iter(enumerate(stage.plan.gpus))

        async def work() -> None:
            for number, gpus in waiting:
                name = pod_name(number)
                seen.created(name)
                await post(stage.client, *pod(number, gpus, scheduler=NOBODY))
                await post(stage.client, *binding(name, stage.fleet.names[nodes[number] % len(stage.fleet.names)]))

        async with asyncio.TaskGroup() as group:
            for _ in range(stage.plan.connections):
                group.create_task(work())
