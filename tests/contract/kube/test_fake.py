"""The fake API server keeps the contract, and breaks as told."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.kube.suite import ApiServerContract, config_map, watching
from kit.kube.fake import FakeKube, fake_kube, pod
from muster.kube.connection import KubeConnection
from muster.kube.errors import ForbiddenError, NotFoundError, TooManyRequestsError, UnavailableError
from muster.kube.objects import JsonObject, at, name_of, version_of
from muster.kube.resources import CONFIG_MAPS, PODS, RESOURCE_CLAIMS, SELF_SUBJECT_ACCESS_REVIEWS


@pytest.fixture
async def fake() -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        yield kube


class TestFake(ApiServerContract):
    """The same as of a real one."""


async def test_old_versions_are_gone_after_a_compaction(fake: FakeKube, kube: KubeConnection) -> None:
    old = await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")
    await kube.create(CONFIG_MAPS, config_map("b"), namespace="default")
    fake.compact()
    async with watching(kube, CONFIG_MAPS, "default", version=version_of(old)) as events:
        kind, status = await events.next()
        assert (kind, at(status, "code"), at(status, "reason")) == ("ERROR", 410, "Expired")


async def test_an_outage_refuses_connections_and_keeps_what_is_stored(fake: FakeKube, kube: KubeConnection) -> None:
    await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")
    once = KubeConnection.plain(fake.url, user_agent="x").at_replica(fake.url)
    async with once, fake.outage():
        with pytest.raises(UnavailableError, match="no change was applied"):
            await once.create(CONFIG_MAPS, config_map("b"), namespace="default")
    assert name_of(await kube.get(CONFIG_MAPS, "a", namespace="default")) == "a"


async def test_a_failure_after_the_work_has_done_the_work(fake: FakeKube, kube: KubeConnection) -> None:
    fake.faults.fail(500, verbs="create", after_work=True)
    with pytest.raises(UnavailableError) as failed:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")
    assert failed.value.effect_unknown
    assert fake.store.find(CONFIG_MAPS, "a", "default") is not None
    assert fake.count("create", "configmaps") == 1


async def test_events_are_lost_without_a_word(fake: FakeKube, kube: KubeConnection) -> None:
    async with watching(kube, CONFIG_MAPS, "default", initial_events=True) as events:
        await events.initial()
        fake.faults.lost_events = 1
        fake.add(CONFIG_MAPS, {**config_map("a"), "metadata": {"name": "a", "namespace": "default"}})
        second = fake.add(CONFIG_MAPS, {**config_map("b"), "metadata": {"name": "b", "namespace": "default"}})
        assert await events.next() == ("ADDED", second)


async def test_permissions_can_be_taken_away(fake: FakeKube, kube: KubeConnection) -> None:
    fake.faults.forbidden.add(("create", "pods/binding"))
    with pytest.raises(ForbiddenError, match="grant verb 'create' on 'pods/binding' in a Role in namespace default"):
        await kube.create_subresource(PODS, "p", "binding", {}, namespace="default")
    attributes: JsonObject = {"verb": "create", "resource": "pods", "subresource": "binding"}
    review: JsonObject = {"spec": {"resourceAttributes": attributes}}
    assert at(await kube.create(SELF_SUBJECT_ACCESS_REVIEWS, review), "status", "allowed") is False


async def test_a_disruption_budget_keeps_a_pod(fake: FakeKube, kube: KubeConnection) -> None:
    fake.add(PODS, pod("p"))
    fake.faults.protected.add("p")
    with pytest.raises(TooManyRequestsError) as refused:
        await kube.create_subresource(PODS, "p", "eviction", {"metadata": {"name": "p"}}, namespace="default")
    assert refused.value.by_budget
    assert fake.count("create", "pods/eviction") == 1


async def test_a_cluster_can_lack_an_api() -> None:
    async with (
        fake_kube(without=["resource.k8s.io"]) as fake,
        KubeConnection.plain(fake.url, user_agent="muster-test/1") as kube,
    ):
        for asking in (kube.get_path("/apis/resource.k8s.io/v1"), kube.list_page(RESOURCE_CLAIMS)):
            with pytest.raises(NotFoundError):
                await asking


async def test_requests_are_logged_with_who_asked(fake: FakeKube, kube: KubeConnection) -> None:
    await kube.list_page(PODS)
    async with watching(kube, PODS, "default", initial_events=True) as events:
        await events.initial()
    assert [(one.verb, one.resource, one.code) for one in fake.log] == [("list", "pods", 200), ("watch", "pods", 200)]
    assert fake.count(user_agent="muster-test/") == 2


async def test_all_watches_end_when_told(fake: FakeKube, kube: KubeConnection) -> None:
    async with watching(kube, PODS, "default", initial_events=True) as events:
        await events.initial()
        fake.end_watches()
        with pytest.raises(StopAsyncIteration):
            await events.next()
    async with watching(kube, PODS, "default", initial_events=True) as events:
        await events.initial()
        fake.drop_connections()
        with pytest.raises(UnavailableError, match="broke off"):
            await events.next()


async def test_a_frozen_watch_is_noticed_by_its_silence(fake: FakeKube, kube: KubeConnection) -> None:
    fake.faults.frozen = True
    with pytest.raises(UnavailableError, match="half open"):
        async with kube.watch(PODS, initial_events=True, timeout_s=60, silence_s=0.1) as lines:
            await anext(lines.batches())
    fake.faults.frozen = False
    await asyncio.sleep(0)
