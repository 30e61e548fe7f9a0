"""A dashboard over the WebSocket of a whole stack, whose processes are killed while jobs come and go."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.msg import Msg

from kit.observe.dashboards import EVERY_AUDIENCE, Dashboard
from kit.stack.living import PASSED, Harness, job, open_harness, options
from kit.waiting import ASKING_POLL_S, until, until_async
from muster.bus.jwt import key_of_seed
from muster.schemas.live import LiveCredential, LiveSlice, Snapshot

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

JOBS = 12


@dataclass
class Screen:
    """A dashboard that takes a snapshot whenever it wants one."""

    client: Client
    api: httpx.AsyncClient
    dashboard: Dashboard = field(default_factory=Dashboard)
    snapshots: int = 0
    phases: dict[str, list[str]] = field(default_factory=dict)

    async def hear(self, message: Msg) -> None:
        one = LiveSlice.model_validate_json(message.data)
        self.dashboard.hear(one)
        if one.cluster != "fed":
            for row in one.jobs:
                self.phases.setdefault(row.id, []).append(row.phase)

    async def follow(self) -> None:
        while True:
            await until(lambda: self.dashboard.wants_snapshot, patience_s=1e6)
            with suppress(httpx.HTTPError):
                answer = await self.api.get("/v1/snapshot")
                if answer.status_code == 200:
                    self.snapshots += 1
                    self.dashboard.begin(Snapshot.model_validate_json(answer.content))
            await asyncio.sleep(ASKING_POLL_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """What a job passes through, each in a process that can be killed."""
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")), split=True, services=PASSED)) as running:
        yield running


@asynccontextmanager
async def screen(harness: Harness) -> AsyncIterator[Screen]:
    token = harness.stack.state.token.read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=harness.stack.endpoints.http, headers=headers, timeout=10) as api:
        given = LiveCredential.model_validate_json((await api.post("/v1/live/credential")).content)
        key = key_of_seed(given.seed)
        client = await nats.connect(
            given.url,
            inbox_prefix=given.inbox_prefix,
            user_jwt_cb=lambda: bytearray(given.jwt.encode()),
            signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
        )
        shown = Screen(client, api)
        for cluster in given.clusters:
            await client.subscribe(f"view.{cluster}.{EVERY_AUDIENCE}.slice", cb=shown.hear)
        await client.flush()
        following = asyncio.create_task(shown.follow())
        try:
            yield shown
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await client.close()


async def test_a_dashboard_sees_every_job_through_although_the_projector_is_killed(harness: Harness) -> None:
    async with screen(harness) as shown:
        before = [(await harness.muster.submit(job(f"before-{number}"))).id for number in range(JOBS)]
        await until(lambda: any("running" in phases for phases in shown.phases.values()))
        await harness.kill("projector")
        after = [(await harness.muster.submit(job(f"after-{number}"))).id for number in range(JOBS)]
        await harness.ended([*before, *after])

        last = (await harness.muster.submit(job("last"))).id
        await until(lambda: "succeeded" in shown.phases.get(last, []))
        await until(lambda: not shown.dashboard.wants_snapshot and not shown.dashboard.unrouted)
        assert [row for row in shown.dashboard.jobs.values() if not row.phase.is_terminal] == []
        assert [row for row in shown.dashboard.queues.values() if row.jobs_running or row.jobs_queued] == []

        async def same_nodes() -> bool:
            return shown.dashboard.nodes == {node.name: node for node in await harness.muster.nodes()}

        await until_async(same_nodes)
        assert shown.snapshots < 12, "a restart costs a dashboard a few snapshots, not one after the other"


async def test_a_dashboard_that_has_joined_goes_on_while_redis_starts_again(harness: Harness) -> None:
    async with screen(harness) as shown:
        await until(lambda: not shown.dashboard.wants_snapshot)
        taken = shown.snapshots
        await harness.kill("redis-server")
        job_id = (await harness.muster.submit(job("one"))).id
        await until(lambda: "succeeded" in shown.phases.get(job_id, []))
        assert (shown.snapshots, shown.dashboard.gaps) == (taken, 0)
