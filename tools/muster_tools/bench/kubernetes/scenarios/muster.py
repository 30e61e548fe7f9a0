"""Muster: a whole stack as `muster up` starts it, with its agent on the control plane; jobs are submitted over HTTP."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import aiohttp
from pydantic import JsonValue

from muster.cli.errors import refused
from muster.cli.fleet_ready import fleet_ready
from muster.schemas.facts.queue import QueueSpec
from muster.stack import control
from muster_tools.bench.fresh_stack import FreshStack, fresh_stack
from muster_tools.bench.kubernetes.manifests import IMAGE, NAMESPACE
from muster_tools.bench.kubernetes.observing import Pod, Seen
from muster_tools.bench.kubernetes.plan import Contender, Plan
from muster_tools.bench.kubernetes.result import Crowd
from muster_tools.bench.kubernetes.scenarios.churn import crowds
from muster_tools.bench.kubernetes.scenarios.ordinary import USER, USERS, rights
from muster_tools.bench.kubernetes.stage import Running, Stage
from muster_tools.bench.load import ACCEPTED, Request
from muster_tools.bench.workload import LONG_RUN_S, TEAM, bodies
from muster_tools.local_kubernetes.child import Usage
from muster_tools.local_kubernetes.fleet import CLASSES, create_all
from muster_tools.local_kubernetes.nodes import Devices, NodeShape, device_class
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions

JOB_LABEL = "muster.dev/job"
DEVICE_CLASS = "gpu.muster.dev"


@dataclass(frozen=True, slots=True)
class MusterStack:
    """Scenario of a Muster stack. claims: Muster allocates the pods' device claims; else GPUs are a number per node."""

    contender: Contender
    claims: bool = False

    def options(self, plan: Plan) -> PlaneOptions:
        """Return options for a control plane without a Kubernetes scheduler."""
        del plan
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0, users=USERS)

    def shape(self, plan: Plan) -> NodeShape:
        """Return nodes with a device plugin, or with devices."""
        del plan
        return NodeShape(devices=Devices.DRA if self.claims else Devices.PLUGIN)

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[Running]:
        """Grant Muster's permissions and start the stack; it is ready once every node is schedulable."""
        await create_all(stage.client, rights())
        if self.claims:
            await create_all(stage.client, [(CLASSES, device_class(DEVICE_CLASS))])
        settings = {
            "kubernetes": cluster(stage.plane.kubeconfig(USER), claims=self.claims),
            "telemetry": {"enabled": False},  # KWOK's nodes have no exporters
        }
        what = f"a stack on {stage.plan.nodes} nodes of Kubernetes"
        async with fresh_stack(stage.directory / "stack", settings, split=False, say=stage.say, what=what) as stack:
            await stack.muster.set_queue(QueueSpec(name=TEAM))
            await fleet_ready(stack.muster, nodes=stage.plan.nodes, queue=TEAM)
            yield _Stack(stage, stack, with_crowds=not self.claims)


class _Stack:
    notes: tuple[str, ...] = ("created: when the job's HTTP request is sent; all of Muster's processes are counted",)

    def __init__(self, stage: Stage, stack: FreshStack, *, with_crowds: bool) -> None:
        self._stage = stage
        self._stack = stack
        self._with_crowds = with_crowds

    def key_of(self, pod: Pod) -> str:
        """Return the job's id from the pod's label."""
        metadata = cast("Mapping[str, JsonValue]", pod["metadata"])
        labels = cast("Mapping[str, JsonValue]", metadata.get("labels") or {})
        return str(labels.get(JOB_LABEL, ""))

    def usage(self) -> Mapping[str, Usage]:
        """Return the resource use of every process of the stack."""
        found = control.status(self._stack.directory).processes
        return {f"muster {one.name}": Usage(one.rss_mib, one.cpu_s) for one in found}

    async def submit(self, seen: Seen) -> None:
        """Submit as fast as the connections allow, a job or a batch per request. Raises CliError if one is refused."""
        plan = self._stage.plan
        waiting: Iterator[Request] = bodies(plan.workloads, prefix="work", run_s=LONG_RUN_S)
        headers = {"Authorization": f"Bearer {self._stack.token}"}
        async with aiohttp.ClientSession(
            self._stack.url, headers=headers, connector=aiohttp.TCPConnector(limit=plan.connections)
        ) as session, asyncio.TaskGroup() as group:  # fmt: skip
            for _ in range(plan.connections):
                group.create_task(_send(session, waiting, seen, batch=plan.batch))

    async def afterwards(self) -> tuple[Crowd, ...]:
        """Measure the cost of followers once, since it is the same with claims."""
        return await crowds(self._stage, self._stack) if self._with_crowds else ()


async def _send(session: aiohttp.ClientSession, waiting: Iterator[Request], seen: Seen, *, batch: int) -> None:
    path, media = ("/v1/jobs/batch", "application/x-ndjson") if batch > 1 else ("/v1/jobs", "application/json")
    while together := list(itertools.islice(waiting, batch)):
        began_s, key = time.monotonic(), together[0][0]
        body, headers = b"\n".join(body for _, body in together), {"Idempotency-Key": key, "Content-Type": media}
        async with session.post(path, data=body, headers=headers) as answer:
            text = await answer.read()
        if answer.status not in ACCEPTED:
            raise refused(f"job {key} was refused: {answer.status}: {text[:300].decode(errors='replace')}")
        for job in _accepted(json.loads(text)):
            seen.created(job.lower(), at_s=began_s)


def _accepted(answer: dict[str, JsonValue]) -> Iterator[str]:
    """Yield the ids of the jobs. Raises CliError if one of a batch is refused."""
    alone: list[JsonValue] = [{"job": answer}]
    for one in cast("list[dict[str, dict[str, JsonValue]]]", answer.get("answers", alone)):
        if "job" not in one:
            raise refused(f"a job was refused: {one['problem']}")
        yield str(one["job"]["id"])


def cluster(kubeconfig: Path, *, claims: bool) -> dict[str, object]:
    """Return the cluster section of Muster's settings."""
    return {
        "kubeconfig": str(kubeconfig),
        "namespace": NAMESPACE,
        "image": IMAGE,
        "devices": "dra" if claims else "device-plugin",
        "device_class": DEVICE_CLASS,
        "own_nodes": False,  # no other scheduler places pods here
        "if_lacking": "fall-back",
    }
