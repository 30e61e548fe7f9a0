"""The old stack: kube-scheduler and a second, topology-aware scheduler that reads one object per node.

Each node's updater reads and rewrites that node's object once a minute, whether anything changed or not, spread evenly
over the minute. Here one client simulates all updaters; it takes the data that they would read from their kubelets from
the measuring watch, which every contender has.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import aiohttp
import yaml
from pydantic import JsonValue

from muster_tools.bench.kubernetes import bounds
from muster_tools.bench.kubernetes.manifests import pod, pod_name
from muster_tools.bench.kubernetes.observing import Seen
from muster_tools.bench.kubernetes.plan import GPUS_PER_NODE, Contender, Plan
from muster_tools.bench.kubernetes.scenarios.scheduled import OwnPods
from muster_tools.bench.kubernetes.stage import Running, Stage
from muster_tools.local_kubernetes.fleet import create_all
from muster_tools.local_kubernetes.nodes import GPU, Manifest, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, MASTERS, PlaneOptions, Profile, Scheduler, User
from muster_tools.local_kubernetes.programs import TOPOLOGY_SCHEDULER

DEFINITION = Path(__file__).parent / "topology.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
SERVED_S_MAX = 30.0
ZONES = 2
PER_ZONE = GPUS_PER_NODE // ZONES
SELF, OTHER = 10, 20
"""NUMA distances."""


class OldStack:
    """Scenario of the old stack."""

    contender = Contender.OLD_STACK

    def options(self, plan: Plan) -> PlaneOptions:
        """Return options with two schedulers; the second may also read the topology objects."""
        del plan
        first = Scheduler(at_once=False)
        second = Scheduler(
            name=TOPOLOGY_SCHEDULER,
            profile=Profile.TOPOLOGY,
            scheduler_name=TOPOLOGY_SCHEDULER,
            program=TOPOLOGY_SCHEDULER,
            user=User(TOPOLOGY_SCHEDULER, (MASTERS,)),
            at_once=False,
        )
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0, more_schedulers=(first, second))

    def shape(self, plan: Plan) -> NodeShape:
        """Return nodes with a device plugin."""
        del plan
        return NodeShape()

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[Running]:
        """Create the topology objects and start both schedulers."""
        names = stage.fleet.names
        await create_all(stage.client, [(DEFINITIONS, yaml.safe_load(DEFINITION.read_text()))])
        await _served(stage.client)
        await create_all(stage.client, ((TOPOLOGIES, topology(name, (PER_ZONE,) * ZONES)) for name in names))
        for name in ("kube-scheduler", TOPOLOGY_SCHEDULER):
            await stage.plane.start(name)
        notes = (f"every node's topology object is read and rewritten each {bounds.UPDATE_PERIOD_S:g} s",)
        running = _WithUpdaters(
            stage, lambda number, gpus: pod(number, gpus, scheduler=TOPOLOGY_SCHEDULER), notes=notes
        )
        try:
            yield running
        finally:
            await running.end()


class _WithUpdaters(OwnPods):
    _updating: asyncio.Task[None] | None = None

    async def submit(self, seen: Seen) -> None:
        """Create the pods; the updaters continue until the end."""
        self._updating = asyncio.create_task(_keep_updating(self._stage, seen))
        await super().submit(seen)

    async def end(self) -> None:
        """Raise the error of a failed updater: its objects would be stale, and the figures wrong."""
        if self._updating is None:
            return
        self._updating.cancel()
        (outcome,) = await asyncio.gather(self._updating, return_exceptions=True)
        if isinstance(outcome, aiohttp.ClientError):
            raise outcome


def free_by_zone(held: Sequence[int]) -> tuple[int, ...]:
    """Return the free GPUs of each zone after a node's kubelet has assigned GPUs as its topology manager does."""
    free = [PER_ZONE] * ZONES
    for gpus in sorted(held, reverse=True):
        whole = [at for at in range(ZONES) if free[at] >= gpus]
        if whole:
            free[min(whole, key=lambda at: free[at])] -= gpus
            continue
        left = gpus
        for at in range(ZONES):
            part = min(free[at], left)
            free[at] -= part
            left -= part
    return tuple(free)


def topology(node: str, free: Sequence[int], *, version: str = "") -> Manifest:
    """Return the topology object of a node."""
    zones = [
        {
            "name": f"node-{at}",
            "type": "Node",
            "costs": [{"name": f"node-{to}", "value": SELF if to == at else OTHER} for to in range(len(free))],
            "resources": [
                {"name": GPU, "capacity": str(PER_ZONE), "allocatable": str(PER_ZONE), "available": str(available)}
            ],
        }
        for at, available in enumerate(free)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node, **({"resourceVersion": version} if version else {})},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": zones,
    }


async def _served(client: aiohttp.ClientSession) -> None:
    """Wait until the API server serves the new kind. Raises TimeoutError."""
    async with asyncio.timeout(SERVED_S_MAX):
        while True:
            async with client.get(TOPOLOGIES) as answer:
                if answer.ok:
                    return
            await asyncio.sleep(bounds.POLL_S)


async def _keep_updating(stage: Stage, seen: Seen) -> None:
    """Update every node in turn, evenly over the period; late turns follow at once."""
    loop = asyncio.get_running_loop()
    names = stage.fleet.names
    began_s, turn = loop.time(), 0
    while True:
        due_s = began_s + turn * bounds.UPDATE_PERIOD_S / len(names)
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        await _update(stage, names[turn % len(names)], seen)
        turn += 1


async def _update(stage: Stage, node: str, seen: Seen) -> None:
    gpus = stage.plan.gpus
    held = [gpus[number] for number in range(len(gpus)) if seen.nodes.get(pod_name(number)) == node]
    async with stage.client.get(f"{TOPOLOGIES}/{node}", raise_for_status=True) as answer:
        metadata = cast("Mapping[str, JsonValue]", (await answer.json())["metadata"])
    body = json.dumps(topology(node, free_by_zone(held), version=str(metadata["resourceVersion"])))
    headers = {"Content-Type": "application/json"}
    async with stage.client.put(f"{TOPOLOGIES}/{node}", data=body, headers=headers, raise_for_status=True) as answer:
        await answer.read()
