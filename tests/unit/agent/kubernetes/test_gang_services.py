"""Services that a former leader left behind: looked for once, by whoever leads next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from kit.kube.fake import FakeKube, fake_kube
from kit.waiting import until
from muster.agent.core.kubernetes.calls import Delete, Kind
from muster.agent.core.kubernetes.names import attempt_name
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.gang_services import GangServicesPart
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject
from muster.kube.permissions import Feature
from muster.kube.resources import NAMESPACES, SERVICES
from unit.agent.kubernetes.rig import JOB, SPACE, Rig, order, slot

OVER = "K" * 26
ABLE = Abilities("v1.34.0", frozenset())


def service(job_id: str, *, namespace: str = SPACE, name: str = "", cluster: str = "atlas") -> JsonObject:
    labels = {"muster.dev/cluster": cluster, "muster.dev/job": job_id.lower(), "muster.dev/attempt": "1"}
    return {"metadata": {"name": name or attempt_name(job_id, 1), "namespace": namespace, "labels": labels}}


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": SPACE}})
        yield kube


@asynccontextmanager
async def running(kube: FakeKube, rig: Rig, abilities: Abilities = ABLE) -> AsyncIterator["asyncio.Task[None]"]:
    part = GangServicesPart(rig.cluster)
    part.watches(abilities)
    async with KubeConnection.plain(kube.url, user_agent="muster-agent/test") as connection:
        task = asyncio.create_task(part.run(connection))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_the_service_of_an_attempt_that_is_over_is_deleted_and_others_stay(kube: FakeKube) -> None:
    over = kube.add(SERVICES, service(OVER))
    kube.add(SERVICES, service(JOB))
    kube.add(SERVICES, service("L" * 26, cluster="another"))
    kube.add(SERVICES, service("M" * 26, namespace="default"))
    kube.add(SERVICES, service("N" * 26, name="copy"))
    rig = Rig().ready()
    rig.run(order(slot(0)))
    async with running(kube, rig) as task:
        await until(task.done)
    (deletion,) = rig.calls()
    uid = str(over["metadata"]["uid"])  # type: ignore[index] - an object
    assert deletion == Delete(Kind.SERVICES, SPACE, attempt_name(OVER, 1), uid)
    assert kube.count("list") == 1


async def test_nothing_is_looked_for_before_all_pods_were_seen(kube: FakeKube) -> None:
    rig = Rig()
    async with running(kube, rig) as task:
        await asyncio.sleep(0)
        assert not task.done()
        assert kube.count("list") == 0
        rig.ready()
        await until(task.done)
    assert kube.count("list") == 1


async def test_who_may_not_list_services_does_without(kube: FakeKube) -> None:
    rig = Rig().ready()
    async with running(kube, rig, Abilities("v1.34.0", frozenset(), ((Feature.NETWORKS, "no permission"),))) as task:
        await until(task.done)
    assert kube.count("list") == 0
