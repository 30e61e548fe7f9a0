"""The API server is away in the middle of a surge: nothing is lost, nothing runs twice, and all goes on by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.kube.agents import open_agent, running_job
from kit.kube.planes import open_plane
from kit.stack.living import Harness
from kit.waiting import until_async
from muster.agent.core.kubernetes.projections import PodProjection
from muster.agent.core.kubernetes.views import PodView
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.reflector import Reflector
from muster.kube.resources import PODS
from muster.kube.shapes import Selection
from muster.schemas.job import Phase
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions

API_SERVER = "kube-apiserver-0"
OUTAGE_S = 60.0
JOBS, GANGS = 100, 8
PATIENCE_S = 150.0


@dataclass
class Witness:
    """Sees every pod: which nodes it was ever on, and which attempts of a job ran at the same time."""

    nodes: dict[str, set[str]] = field(default_factory=dict)
    live: dict[str, dict[str, int]] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    async def see(self, changes: list[Change[PodView]]) -> None:
        for change in changes:
            view = change.now or change.before
            assert view is not None
            if view.member is None:
                continue
            if view.node:
                self.nodes.setdefault(view.uid, set()).add(view.node)
            live = self.live.setdefault(view.member.key.job_id, {})
            if change.now is None or view.end is not None or not view.node:
                live.pop(view.uid, None)
                continue
            live[view.uid] = view.member.key.attempt
            if len(set(live.values())) > 1:
                self.twice.append(f"{view.member.key.job_id}: attempts {sorted(set(live.values()))} at once")

    @property
    def rebound(self) -> list[str]:
        return [uid for uid, nodes in self.nodes.items() if len(nodes) > 1]


@asynccontextmanager
async def witness(kube: KubeConnection, namespace: str) -> AsyncIterator[Witness]:
    seen = Witness()
    reflector = Reflector(
        kube, PODS, project=PodProjection(), on_changes=seen.see, select=Selection(namespace), compare_s=None
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait({task})


async def phases(harness: Harness, job_ids: list[str]) -> list[Phase]:
    return [(await harness.muster.get(job_id)).phase for job_id in job_ids]


@pytest.mark.timeout(400)
async def test_a_surge_survives_an_outage_of_the_api_server(tmp_path: Path) -> None:
    async with (
        open_plane(PlaneOptions(controllers=CONTROLLERS)) as plane,
        open_agent(plane, tmp_path / "state", nodes=30, bind_s=20.0) as agent,
        witness(agent.kube, agent.namespace) as seen,
    ):
        submit = agent.harness.muster.submit
        jobs = [(await submit(running_job(f"one-{n}", run_s=1.0))).id for n in range(JOBS // 2)]
        jobs += [(await submit(running_job(f"gang-{n}", run_s=1.0, replicas=4))).id for n in range(GANGS)]
        await plane.stop(API_SERVER)
        jobs += [(await submit(running_job(f"late-{n}", run_s=1.0))).id for n in range(JOBS - JOBS // 2)]
        await asyncio.sleep(OUTAGE_S)  # the outage itself is what passes
        before = await phases(agent.harness, jobs)
        await plane.start(API_SERVER)
        ended = await agent.harness.ended(jobs, patience_s=PATIENCE_S)
        assert Phase.SUCCEEDED in before or Phase.PLACED in before, "the outage came within the surge"
        assert {one.phase for one in ended} == {Phase.SUCCEEDED}
        assert await agent.harness.violations(jobs) == []
        assert (seen.twice, seen.rebound) == ([], [])

        async def cleared() -> bool:
            return not await agent.pods()

        await until_async(cleared, patience_s=60)
