"""A stack whose agent works a real API server, on nodes and in a namespace of its own.

Beside tests/kubernetes for the same reason as kube_planes.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kit.kube.planes import AnyPlane
from kit.stack.kubernetes import open_kubernetes_harness
from kit.stack.living import Harness, job
from kit.waiting import until_async
from muster.kube.connection import KubeConnection
from muster.kube.errors import NotFoundError
from muster.kube.objects import JsonObject
from muster.kube.official import from_kubeconfig
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.kube.shapes import Selection
from muster.schemas.job import JobSpec, Phase
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster_tools.local_kubernetes.fleet import make_fleet

_NUMBERS = itertools.count()
WAIT_S = 60.0


def running_job(name: str, *, run_s: float | None = None, exit_code: int = 0, **fields: object) -> JobSpec:
    """A job whose pods KWOK ends after `run_s`; None: they run on."""
    labels = {} if run_s is None else {RUN_S: f"{run_s:g}", EXIT_CODE: str(exit_code)}
    spec = job(name, **fields)  # type: ignore[arg-type] - fields of a job
    return spec.model_copy(update={"labels": labels})


@dataclass
class Agent:
    """A stack on nodes and a namespace of its own."""

    harness: Harness
    kube: KubeConnection
    namespace: str
    prefix: str

    async def pods(self) -> list[JsonObject]:
        return (await self.kube.list_page(PODS, select=Selection(self.namespace))).items

    async def until_gone(self) -> None:
        async def none() -> bool:
            return not await self.pods()

        await until_async(none, patience_s=WAIT_S)

    async def phase_is(self, job_id: str, phase: Phase) -> None:
        await self.harness.job_that(job_id, lambda view: view.phase is phase, WAIT_S)


@asynccontextmanager
async def open_agent(plane: AnyPlane, directory: Path, *, nodes: int = 4, **kubernetes: object) -> AsyncIterator[Agent]:
    """A stack whose agent knows only its own nodes and namespace."""
    number = next(_NUMBERS)
    namespace = prefix = f"agent{number}"
    credentials = await from_kubeconfig(plane.kubeconfig())
    async with KubeConnection(credentials, user_agent="muster-test/1") as kube, plane.client() as client:
        await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        fleet = await make_fleet(client, nodes, prefix=prefix, labels={"muster.dev/test": prefix})
        settings = {
            "namespace": namespace, "node_selector": {"muster.dev/test": prefix}, "kept_s": 0.0,
            "teams": {namespace: namespace}, **kubernetes,
        }  # fmt: skip
        try:
            async with open_kubernetes_harness(directory, plane.kubeconfig(), **settings) as harness:
                yield Agent(harness, kube, namespace, prefix)
        finally:
            for name in fleet.names:
                with suppress(NotFoundError):  # a test may have taken it away
                    await kube.delete(NODES, name)
            await kube.delete(NAMESPACES, namespace)
