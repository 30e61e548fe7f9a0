"""Upgrade campaigns on a real API server: an operator acts on labels, or Jobs on the nodes do, and jobs run on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.kube.planes import open_plane
from kit.stack.kubernetes import NAMESPACE, open_kubernetes_harness
from kit.stack.living import Harness, job
from kit.waiting import until_async
from muster.kube.connection import KubeConnection
from muster.kube.objects import name_of, strings, text, uid_of
from muster.kube.resources import JOBS, NAMESPACES, NODES, PODS
from muster.kube.shapes import Patch, Selection
from muster.schemas.facts.job import JobStopRequested
from muster.schemas.facts.upgrade import CampaignEnded, CampaignSpec, NodeStepped, Step
from muster.schemas.job import Phase
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions
from muster_tools.local_kubernetes.plane import STAGES, ControlPlane

WORK = Path(__file__).with_name("kwok-work.yaml")
STATE = "nvidia.com/gpu-driver-upgrade-state"
WORK_SPACE = "muster-nodes"
ASKED, DONE = "upgrade-required", "upgrade-done"
PREFLIGHT = {
    "suites": [{"name": "after", "checks": [{"check": "device-count"}, {"check": "gpu-health"}]}],
    "nodes": {
        "image": "tools",
        "actions": {
            "driver": {"by": "label", "set": {STATE: ASKED}, "done": {STATE: DONE}},
            "os": {"command": ["upgrade", "--to", "{version}"], "privileged": True},
        },
    },
}
TURN = ["cordoned", "drained", "upgrading", "validating", "done"]
PATIENCE_S = 90.0

pytestmark = pytest.mark.timeout(300)


@dataclass
class Fleet:
    """A stack on three nodes, two of which are free."""

    harness: Harness
    kube: KubeConnection

    async def busy(self, name: str) -> tuple[str, str]:
        """The node of a job that fills it and runs on, and its id."""
        submitted = await self.harness.muster.submit(
            job(name, gpus=8).model_copy(update={"preemptible": False, "total_run_time_s": 86_400.0, "labels": {}})
        )
        view = await self.harness.job_that(submitted.id, lambda view: view.phase is Phase.RUNNING, PATIENCE_S)
        return view.slots[0].node, submitted.id

    async def pods(self) -> set[str]:
        return {uid_of(pod) for pod in (await self.kube.list_page(PODS, select=Selection(NAMESPACE))).items}

    async def nodes(self) -> list[str]:
        return [name_of(node) for node in (await self.kube.list_page(NODES)).items]

    async def steps(self, campaign: str, node: str) -> list[str]:
        told = [fact for fact in await self.harness.facts() if isinstance(fact.payload, NodeStepped)]
        steps = [one.payload for one in told if one.subject_id == node]
        assert all(isinstance(one, NodeStepped) for one in steps)
        return [
            one.step.value
            for one in steps
            if isinstance(one, NodeStepped) and one.campaign == campaign and one.step is not Step.WAITING
        ]

    async def ended(self, campaign: str) -> None:
        async def is_over() -> bool:
            facts = await self.harness.facts()
            return any(isinstance(fact.payload, CampaignEnded) and fact.subject_id == campaign for fact in facts)

        await until_async(is_over, patience_s=PATIENCE_S)


async def operate(kube: KubeConnection) -> None:
    """The operator of drivers: what is asked of it by a label is done a moment later."""
    while True:
        for node in (await kube.list_page(NODES)).items:
            if strings(node, "metadata", "labels").get(STATE) == ASKED:
                body = {"metadata": {"labels": {STATE: DONE}}}
                await kube.patch(NODES, name_of(node), body, kind=Patch.MERGE)
        await asyncio.sleep(0.2)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Kubelets that run work on nodes, so a plane of its own."""
    with asyncio.Runner() as runner:
        opened = open_plane(PlaneOptions(controllers=CONTROLLERS, kwok_stages=(STAGES, WORK)))
        found = runner.run(opened.__aenter__())
        try:
            yield found
        finally:
            runner.run(opened.__aexit__(None, None, None))


@asynccontextmanager
async def open_fleet(plane: ControlPlane, directory: Path) -> AsyncIterator[Fleet]:
    async with plane.client() as client:
        await make_fleet(client, 3, prefix="gpu")
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as kube:
        for name in (NAMESPACE, WORK_SPACE):
            await kube.create(NAMESPACES, {"metadata": {"name": name}})
        operator = asyncio.create_task(operate(kube))
        try:
            async with open_kubernetes_harness(directory, plane.kubeconfig(), preflight=PREFLIGHT) as harness:
                yield Fleet(harness, kube)
        finally:
            operator.cancel()
            with suppress(asyncio.CancelledError):
                await operator


def campaign(component: str, nodes: list[str]) -> CampaignSpec:
    return CampaignSpec.model_validate(
        {
            "name": f"{component}-new", "component": component, "version": "580.105", "select": {"nodes": nodes},
            "max_unavailable": "1", "takes_s": 2.0, "suite": "after",
        }
    )  # fmt: skip


async def test_campaigns_by_label_and_by_job_end_and_a_job_elsewhere_runs_on(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with open_fleet(plane, tmp_path / "state") as fleet:
        busy, job_id = await fleet.busy("week-long")
        untouched = await fleet.pods()
        free = [node for node in await fleet.nodes() if node != busy]
        for component in ("driver", "os"):
            spec = campaign(component, free)
            await fleet.harness.muster.start_campaign(spec)
            await fleet.ended(spec.name)
            for node in free:
                assert await fleet.steps(spec.name, node) == TURN
            assert await fleet.steps(spec.name, busy) == []
        assert await fleet.pods() == untouched
        assert (await fleet.harness.muster.get(job_id)).phase is Phase.RUNNING
        assert not any(isinstance(fact.payload, JobStopRequested) for fact in await fleet.harness.facts())
        jobs = (await fleet.kube.list_page(JOBS, select=Selection(WORK_SPACE))).items
        where = sorted(text(one, "spec", "template", "spec", "nodeName") for one in jobs)
        assert where == sorted(free * 3), "checks after both campaigns, and the work of one of them"
        for node in (await fleet.kube.list_page(NODES)).items:
            assert strings(node, "metadata", "labels").get(STATE, "") == (DONE if name_of(node) in free else "")
        after = await fleet.harness.muster.submit(job("after", gpus=8, replicas=2))
        await fleet.harness.job_that(after.id, lambda view: view.phase is Phase.RUNNING, PATIENCE_S)
