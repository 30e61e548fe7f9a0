"""Devices are chosen on every version of `resource.k8s.io`, and an API server that is upgraded is followed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Never

import pytest

from kit.kube.allocating import choosing
from kit.kube.fake import FakeKube, fake_kube
from kit.waiting import until
from muster.agent.core.cluster import ClusterSeen, CreatePods, NodeSeen
from muster.agent.core.kubernetes.chosen import ChosenDevices
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.core.kubernetes.slices import project_slice
from muster.agent.kubernetes.abilities import Abilities, find_abilities
from muster.agent.kubernetes.backend import new_core, watches_of
from muster.agent.kubernetes.dra import DevicesPart
from muster.agent.kubernetes.parts import KindWatch
from muster.agent.kubernetes.sink import KubernetesSink, Lookout
from muster.agent.kubernetes.workloads import WorkloadsPart
from muster.bus.clock import SystemTime
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import LeaderHandle
from muster.core import Instant
from muster.kube import bounds
from muster.kube.connection import KubeConnection
from muster.kube.dialects import VERSIONS
from muster.kube.holdings import Change, Happened, Key
from muster.kube.objects import JsonObject, objects, text
from muster.kube.permissions import Feature
from muster.kube.resources import NAMESPACES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from muster.schemas.facts.control import ClusterDescribed
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot, TaskGroup
from muster_tools.local_kubernetes.nodes import Devices, NodeShape, node, resource_slice
from unit.agent.pods.orders import JOB, POLICY, spec

SHAPE = NodeShape(devices=Devices.DRA)
NODE = "gpu-0000"
FEATURES = (Feature.DRA, Feature.CLAIM_TEMPLATES, Feature.POOL_SLICES)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BACKOFF_S_MIN", 0.01)


async def serving(*versions: str) -> AsyncIterator[FakeKube]:
    """One node with eight devices."""
    async with fake_kube(devices=versions) as kube:
        kube.add(NAMESPACES, {"metadata": {"name": POLICY.namespace}})
        kube.add(NODES, dict(node(0, SHAPE)))
        kube.add(RESOURCE_SLICES, dict(resource_slice(0, SHAPE)))
        yield kube


@pytest.fixture(params=VERSIONS)
async def kube(request: pytest.FixtureRequest) -> AsyncIterator[FakeKube]:
    async for one in serving(request.param):
        yield one


@pytest.fixture
async def old() -> AsyncIterator[FakeKube]:
    async for one in serving("v1beta1"):
        yield one


def connection(kube: FakeKube) -> KubeConnection:
    return KubeConnection.plain(kube.url, user_agent="muster-agent/test")


def order(*devices: int) -> CreatePods:
    slot = Slot(group=0, replica=0, node=NODE, devices=devices, gpu_milli=1000)
    return CreatePods(JOB, 0, Instant(0), (slot,), spec(TaskGroup(gpus=len(devices))))


def given(kube: FakeKube) -> list[list[str]]:
    """Devices of each claim, as they are stored."""
    return [
        [text(one, "device") for one in objects(claim, "status", "allocation", "devices", "results")]
        for claim in kube.store.all(RESOURCE_CLAIMS)
    ]


async def test_a_pod_gets_the_chosen_devices_and_gives_them_back(kube: FakeKube) -> None:
    async with connection(kube) as connected, choosing(connected, POLICY) as agent:
        wanted = order(2, 5)
        name, uid = await agent.pod(wanted)
        agent.prepare(wanted, 0, name=name, uid=uid)
        await until(lambda: agent.ready or agent.refused)
        assert agent.refused == {}
        assert given(kube) == [["gpu-2", "gpu-5"]]
        agent.chosen.release(wanted, wanted.slots[0], Instant(0))
        await until(lambda: not kube.store.all(RESOURCE_CLAIMS))
        assert agent.answers == []


async def test_what_was_allocated_before_an_upgrade_is_given_back_after_it(old: FakeKube) -> None:
    async with connection(old) as connected, choosing(connected, POLICY) as agent:
        first = order(0)
        name, uid = await agent.pod(first)
        agent.prepare(first, 0, name=name, uid=uid)
        await until(lambda: agent.ready or agent.refused)
        old.serve_devices("v1")
        await connected.get_path("/version")  # over a connection that stands
        agent.chosen.release(first, first.slots[0], Instant(0))
        await until(lambda: not old.store.all(RESOURCE_CLAIMS))
        assert connected.versioned.version == "v1"


@asynccontextmanager
async def sinking(kube: FakeKube) -> AsyncIterator[tuple[KubernetesCluster, Callable[[], ClusterDescribed | None]]]:
    """A cluster at the server, and what is said of it: None until something is."""
    settings = KubernetesSettings(image="busybox", devices="dra", own_nodes=False, compare_s=3600.0)
    core = new_core("atlas", settings)
    cluster, clock = core.cluster, SystemTime()
    assert isinstance(cluster, KubernetesCluster)
    chosen = cluster.auxiliary
    assert isinstance(chosen, ChosenDevices)

    async def connect() -> KubeConnection:
        return connection(kube)

    parts = (
        DevicesPart(chosen, is_wanted=True, now=clock.wall),
        WorkloadsPart(core.workloads, now=clock.wall),
    )
    sink = KubernetesSink(settings, connect=connect, watches=watches_of, parts=lambda _: parts, clock=clock, look_s=0.1)

    def described() -> ClusterDescribed | None:
        seen = [one.description for one in cluster.observe(clock.wall()) if isinstance(one, ClusterSeen)]
        return seen[-1] if seen else None

    await sink.open(core, None, LeaderHandle(lambda: None, lambda: True))
    try:
        yield cluster, described
    finally:
        await sink.close()


async def test_the_cluster_is_described_with_the_version_that_is_spoken(old: FakeKube) -> None:
    async with sinking(old) as (_, described):

        def served() -> list[str]:
            said = described()
            assert said is None or said.devices == "scheduler"
            return [] if said is None else [one for one in said.served if one.startswith("resource.k8s.io")]

        await until(served)
        assert served() == ["resource.k8s.io/v1beta1"]
        old.serve_devices("v1")
        await until(lambda: served() == ["resource.k8s.io/v1"])


async def test_devices_that_are_served_from_an_upgrade_on_are_chosen_from_then_on(old: FakeKube) -> None:
    """Kubernetes 1.33 serves none by itself, 1.34 does."""
    theirs: JsonObject = {"metadata": {"name": "theirs", "namespace": POLICY.namespace}, "spec": {}}
    old.add(RESOURCE_CLAIMS, theirs)
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": NODE, "device": "gpu-3"}
    held: JsonObject = {"allocation": {"devices": {"results": [result]}}}
    old.set_status(RESOURCE_CLAIMS, "theirs", held, POLICY.namespace)
    old.serve_devices()
    told: list[tuple[str, int]] = []
    async with sinking(old) as (cluster, described):

        def seen() -> list[tuple[str, int]]:
            said = described()
            nodes = [one for one in cluster.observe(Instant(1)) if isinstance(one, NodeSeen)]
            for node in nodes:
                uuids = node.description.gpu_uuids
                if said is not None and (said.devices, len(uuids)) not in told:
                    told.append((said.devices, len(uuids)))
            return told

        await until(seen)
        assert seen() == [("kubelet", 0)]
        old.serve_devices("v1")
        await until(lambda: ("scheduler", 7) in seen())
        assert not any(number == 8 for _, number in told), "what others hold was known before a device was told of"
        await until(lambda: old.count("watch", "resourceclaimtemplates.resource.k8s.io"))


def test_slices_that_are_watched_late_count_only_after_all_claims_were_seen() -> None:
    core = new_core("atlas", KubernetesSettings(image="busybox"))
    assert isinstance(core.cluster, KubernetesCluster)
    chosen = core.cluster.auxiliary
    assert isinstance(chosen, ChosenDevices)
    part = DevicesPart(chosen, is_wanted=True, now=lambda: Instant(1))
    [slices, _] = part.later([Feature.DRA])
    assert isinstance(slices, KindWatch)
    for number in (0, 1):
        view = project_slice(dict(resource_slice(number, SHAPE)))
        slices.feed(Change(Happened.ADDED, Key("", view.name), None, view), Instant(1))
    slices.feed(Change(Happened.DELETED, Key("", view.name), view, None), Instant(1))
    part.later_synced([Feature.JOBSETS])
    assert chosen.nodes == frozenset()
    part.later_synced([Feature.DRA])
    assert chosen.nodes == {NODE}
    slices.feed(Change(Happened.ADDED, Key("", view.name), None, view), Instant(1))
    assert len(chosen.nodes) == 2
    assert part.later([Feature.DRA]) == (), "they are watched"


async def test_versions_that_change_to_and_fro_are_told_of_once_in_a_while() -> None:
    """As they may while replicas of an API server are upgraded one after the other."""
    async with fake_kube(devices=["v1beta1"]) as kube, connection(kube) as connected:
        await connected.list_page(RESOURCE_SLICES)
        told: list[str] = []
        able = Abilities("v1.33.0", frozenset({"resource.k8s.io"}), devices_api="v1beta1")
        lookout = Lookout(
            (), able, start=never, tell=lambda now: told.append(now.devices_api), writes_in=(), seed=1, look_s=9e9
        )
        following = asyncio.create_task(lookout.follow(connected.versioned))
        for version in ("v1", "v1beta1", "v1", "v1beta2"):
            kube.serve_devices(version)
            await connected.list_page(RESOURCE_SLICES)
            await until(lambda: told)
        assert (connected.versioned.version, told) == ("v1beta2", ["v1"])
        following.cancel()
        await asyncio.wait({following})


def never(*_: object) -> Never:
    raise AssertionError("there is nothing to begin")


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
async def test_older_servers_lack_nothing_but_pools_that_bind_on_a_condition(version: str) -> None:
    async with fake_kube(devices=[version]) as kube, connection(kube) as connected:
        found = await find_abilities(connected, wanted=FEATURES)
        assert [found.has(feature) for feature in FEATURES] == [True, True, False]
        assert found.lacking(FEATURES) == (
            "API group resource.k8s.io/v1 is not served; devices of the fabric are not published",
        )


async def test_a_version_that_nobody_speaks_is_lacking_and_said_so() -> None:
    async with fake_kube(devices=["v1alpha3"]) as kube, connection(kube) as connected:
        found = await find_abilities(connected, wanted=FEATURES)
        assert found.lacking([Feature.DRA]) == (
            "API group resource.k8s.io (v1 or v1beta2 or v1beta1) is not served; kubelets pick the GPUs",
        )
        assert found.unserved(FEATURES) == frozenset(FEATURES)


def test_objects_with_claims_keep_to_the_models_that_nodes_of_the_cluster_have_by_claims() -> None:
    core = new_core("atlas", KubernetesSettings(image="busybox"))
    cluster = core.cluster
    assert isinstance(cluster, KubernetesCluster)
    for name, model, picks in (("a", "H100", False), ("b", "A100", True)):
        said = {"cpu_milli": 1, "memory_mib": 1, "gpu_uuids": (name,), "gpu_model": model, "kubelet_picks": picks}
        cluster.nodes.acknowledge(NodeSeen(name, NodeJoined.model_validate(said)), Instant(1))
    assert core.workloads.templates.models() == ("H100",)
