"""An agent of which only the choosing of devices lives, at a real API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.calls import Refused
from muster.agent.core.kubernetes.chosen import ChosenDevices, DevicePolicy
from muster.agent.core.kubernetes.describing import NodePolicy
from muster.agent.core.kubernetes.machines import NoMachines
from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.nodes import Nodes
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.ports import AdoptedPods
from muster.agent.core.kubernetes.projections import NodeProjection
from muster.agent.core.kubernetes.views import NodeView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.kubernetes.dra import dra_watches
from muster.agent.kubernetes.parts import KindWatch
from muster.agent.kubernetes.workers import perform
from muster.bus.clock import SystemTime
from muster.core import Instant
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.objects import name_of, uid_of
from muster.kube.resources import NODES, PODS

CLOCK = SystemTime()
CALLS_AT_A_TIME = 8
IDLE_S = 0.002


@dataclass
class Choosing:
    """ready, refused: pods, as told."""

    kube: KubeConnection
    chosen: ChosenDevices
    nodes: Nodes
    worklist: Worklist
    orders: PodOrders
    ready: list[PodKey] = field(default_factory=list)
    refused: dict[PodKey, str] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)

    def is_ready(self, key: PodKey, *, uid: str) -> None:
        """See `Watcher`."""
        self.ready.append(key)

    def is_refused(self, key: PodKey, now: Instant, *, reason: str, uid: str = "") -> None:
        """See `Watcher`."""
        self.refused[key] = reason

    async def pod(self, order: CreatePods, slot: int = 0) -> tuple[str, str]:
        """Make the pod of a slot; its name and uid."""
        one = order.slots[slot]
        body = self.orders.pod(order, one, order.slots)
        made = await self.kube.create(PODS, body, namespace=self.orders.namespace(order))
        return name_of(made), uid_of(made)

    def prepare(self, order: CreatePods, slot: int, *, name: str, uid: str) -> None:
        """The pod is there."""
        if self.chosen.prepare(order, order.slots[slot], name=name, uid=uid, now=CLOCK.wall()):
            self.is_ready(PodKey(order.job_id, order.attempt, 0, slot), uid=uid)

    async def bind(self, order: CreatePods, slot: int = 0, *, name: str, uid: str) -> None:
        """As the agent does it, when all is ready."""
        target = {"apiVersion": "v1", "kind": "Node", "name": order.slots[slot].node}
        body: dict[str, object] = {"metadata": {"name": name, "uid": uid}, "target": target}
        await self.kube.create_subresource(PODS, name, "binding", body, namespace=self.orders.namespace(order))

    async def work(self) -> None:
        """Make the calls that are asked for, some at a time, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CALLS_AT_A_TIME):
                tasks.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            task = self.worklist.take(CLOCK.wall())
            if task is None:
                await asyncio.sleep(IDLE_S)
                continue
            outcome = await perform(self.kube, task.call)
            if isinstance(outcome, Refused):
                self.answers.append(outcome.message)
            self.worklist.finished(task, outcome, CLOCK.wall())


@asynccontextmanager
async def choosing(kube: KubeConnection, policy: PodPolicy, *, own_nodes: bool = False) -> AsyncIterator[Choosing]:
    """With its watches in step, and its calls worked."""
    worklist, orders = Worklist(), PodOrders(policy)
    chosen = ChosenDevices(DevicePolicy(own_nodes=own_nodes), worklist, orders, AdoptedPods())
    nodes = Nodes(NodePolicy(), chosen, NoMachines(), lost_s=40.0)
    chosen.belongs_to(nodes)
    agent = Choosing(kube, chosen, nodes, worklist, orders)
    chosen.watched_by(agent)

    def node(change: Change[NodeView], now: Instant) -> None:
        if change.now is not None:
            nodes.seen(change.now, now)

    async def after() -> None:
        nodes.settle(CLOCK.wall())
        for seen in list(nodes.observations()):  # the log has it at once
            nodes.acknowledge(seen, CLOCK.wall())
        chosen.settle(CLOCK.wall())

    watches = (*dra_watches(chosen), KindWatch(NODES, NodeProjection(), node))
    running = [
        watch.start(kube, after, CLOCK.wall, seed=number, compare_s=300.0) for number, watch in enumerate(watches)
    ]
    tasks = [asyncio.create_task(one.run()) for one in running] + [asyncio.create_task(agent.work())]
    try:
        for one in running:
            await one.wait_synced()
        nodes.synced()
        await after()
        yield agent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
