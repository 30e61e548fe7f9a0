"""What the pods of k8s/ run, run here: each part with its own Secret alone, three NATS servers of which one may die."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.invariants import violations
from kit.kube.pods_on_loopback import Pods, pods
from kit.stack.living import READ_IDLE_S, TEAM, job
from kit.waiting import until, until_async
from muster.bus.access import ADMIN_TOOLS
from muster.bus.connection import connect_once
from muster.bus.jsapi import stream_info
from muster.bus.nats_log import NatsLog
from muster.bus.settings import Settings
from muster.client import Muster
from muster.client.errors import MusterError
from muster.core.fact import Fact
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.subjects import cluster_log

pytestmark = [pytest.mark.connected, pytest.mark.timeout(300)]

SECTIONS = {
    "cluster": "pods",
    "bus": {"replicas": 3, "lease_ttl_s": 3.0, "log_bytes_max": 64 * 1024**2, "fed_bytes_max": 64 * 1024**2},
    "fleet": {"nodes": 8},
    "simulation": {"start_s": 0.05, "job_failure_share": 0.0, "telemetry_interval_s": 0},
}
PATIENCE_S = 120.0


def settings_of(running: Pods) -> Settings:
    return running.settings.model_copy(
        update={
            "credentials_dir": running.host / "creds",
            "nats_url": f"nats://127.0.0.1:{running.ports['client']}",
        }
    )


async def facts(running: Pods) -> list[Fact]:
    connection = await connect_once(settings_of(running), ADMIN_TOOLS)
    try:
        reader = await NatsLog(connection, cluster_log("pods")).reader(after_seq=0)
        found: list[Fact] = []
        head, seen = await reader.head(), 0
        while seen < head:
            batch = await reader.read(limit=1000, timeout_s=READ_IDLE_S)
            found += batch.facts
            seen = batch.last_seq
        await reader.close()
        return found
    finally:
        await connection.close()


@asynccontextmanager
async def client(running: Pods) -> AsyncIterator[Muster]:
    """As the administrator, once the gateway answers and there is a queue."""
    async with Muster.from_state_dir(running.host) as muster:

        async def has_queue() -> bool:
            try:
                await muster.set_queue(QueueSpec(name=TEAM))
                return any(queue.name == TEAM for queue in await muster.queues())
            except MusterError:
                return False

        await until_async(has_queue, patience_s=PATIENCE_S)
        yield muster


async def ended(muster: Muster, accepted: list[str]) -> None:
    async def have() -> bool:
        views = await asyncio.gather(*map(muster.get, accepted))
        return all(view.phase is Phase.SUCCEEDED for view in views)

    await until_async(have, patience_s=PATIENCE_S)


async def copies(running: Pods) -> object:
    connection = await connect_once(settings_of(running), ADMIN_TOOLS)
    try:
        info = await stream_info(connection, cluster_log("pods").stream)
    finally:
        await connection.close()
    assert info is not None
    return info.config["num_replicas"]


async def test_each_part_works_with_its_own_secret_and_the_loss_of_a_server_loses_nothing(tmp_path: Path) -> None:
    with pods(tmp_path, SECTIONS) as running:
        async with client(running) as muster:
            assert await copies(running) == 3
            accepted = [(await muster.submit(job(f"before-{n}"))).id for n in range(5)]
            running.kill("nats-1")
            accepted += [(await muster.submit(job(f"without-{n}"))).id for n in range(5)]
            await ended(muster, accepted)
            running.start_server(1)
            await until(lambda: running.is_caught_up(1), patience_s=PATIENCE_S)  # a budget keeps two in Kubernetes
            running.kill("nats-2")
            accepted += [(await muster.submit(job(f"without-another-{n}"))).id for n in range(5)]
            await ended(muster, accepted)
        assert violations(await facts(running), accepted=accepted, all_ended=True) == []
