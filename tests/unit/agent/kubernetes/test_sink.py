"""The sink at a fake API server: what it asks, what it does without, and what stops it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Never

import pytest

from kit.kube.fake import FakeKube, fake_kube, node, pod
from kit.kube.objects import job_set
from kit.waiting import until
from muster.agent.core.cluster import ClusterSeen, CreatePods, NodeSeen
from muster.agent.core.core import AgentCore
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.kubernetes.abilities import Abilities, AbilityError
from muster.agent.kubernetes.backend import new_core, new_sink, watches_of
from muster.agent.kubernetes.parts import Part
from muster.agent.kubernetes.sink import LOOK_S, KubernetesSink, Lookout
from muster.agent.kubernetes.workloads import WorkloadsPart
from muster.bus.clock import SystemTime
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import LeaderHandle
from muster.core import Instant
from muster.kube.connection import KubeConnection
from muster.kube.permissions import Feature
from muster.kube.resources import JOB_SETS, NAMESPACES, NODES, PODS
from muster.schemas.job import JobSpec, Slot, TaskGroup

SETTINGS = KubernetesSettings(image="busybox", devices="device-plugin", writes=4, compare_s=3600.0)
ORDER = CreatePods(
    "J" * 26,
    1,
    Instant(1),
    (Slot(group=0, replica=0, node="n1", gpus=1),),
    JobSpec(name="job", team="blue", task_groups=(TaskGroup(gpus=1),)),
)


@dataclass
class Opened:
    kube: FakeKube
    core: AgentCore
    sink: KubernetesSink
    leads: list[bool] = field(default_factory=lambda: [True])
    woken: list[None] = field(default_factory=list)

    @property
    def cluster(self) -> KubernetesCluster:
        assert isinstance(self.core.cluster, KubernetesCluster)
        return self.core.cluster

    async def turn(self) -> None:
        await self.sink.after_fold((), last_seq=0, now=Instant(0))


@asynccontextmanager
async def opened(
    kube: FakeKube,
    settings: KubernetesSettings = SETTINGS,
    *,
    parts: Callable[[AgentCore], Sequence[Part]] = lambda _: (),
    look_s: float = LOOK_S,
) -> AsyncIterator[Opened]:
    async def connect() -> KubeConnection:
        return KubeConnection.plain(kube.url, user_agent="muster-agent/test")

    sink = KubernetesSink(settings, connect=connect, watches=watches_of, parts=parts, clock=SystemTime(), look_s=look_s)
    sink.features = (Feature.DISRUPTION_BUDGETS,)
    here = Opened(kube, new_core("atlas", settings), sink)
    await sink.open(here.core, None, LeaderHandle(lambda: here.woken.append(None), lambda: here.leads[0]))
    try:
        yield here
    finally:
        if sink._task is not None and sink._task.done():
            sink._task = None
        await sink.close()


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": "muster-jobs"}})
        kube.add(NODES, node("n1"))
        yield kube


async def test_every_kind_is_asked_for_once_and_the_shell_is_woken_for_what_is_seen(kube: FakeKube) -> None:
    async with opened(kube) as here:
        await until(lambda: here.cluster.gangs.is_synced)
        assert here.woken
        seen = here.cluster.observe(SystemTime().wall())
        assert [type(one) for one in seen] == [ClusterSeen, NodeSeen]
        assert kube.count("list") == 0
        assert (kube.count("watch", "pods"), kube.count("watch", "nodes")) == (1, 1)


async def test_who_does_not_lead_writes_nothing(kube: FakeKube) -> None:
    async with opened(kube) as here:
        here.leads[0] = False
        await until(lambda: here.cluster.gangs.is_synced)
        here.cluster.carry_out(ORDER)
        await here.turn()
        assert not kube.store.all(PODS)
        here.leads[0] = True
        await until(lambda: kube.count("create", "pods/binding") == 1)


async def test_a_missing_permission_that_nothing_goes_without_stops_it_and_says_which(kube: FakeKube) -> None:
    kube.faults.forbidden.add(("create", "pods/binding"))
    async with opened(kube) as here:
        await until(lambda: here.cluster.is_broken)
        with pytest.raises(AbilityError, match="permission to create pods/binding is missing"):
            await here.turn()


async def test_what_it_can_do_without_is_told_and_done_without(kube: FakeKube) -> None:
    kube.faults.forbidden.add(("create", "pods/eviction"))
    async with opened(kube) as here:
        await until(lambda: here.cluster.gangs.is_synced)
        (described,) = (one for one in here.cluster.observe(SystemTime().wall()) if isinstance(one, ClusterSeen))
        assert "create pods/eviction is missing" in described.description.lacking[0]
        assert "deleted" in described.description.lacking[0]


async def test_the_settings_may_ask_to_stop_for_what_is_lacking(kube: FakeKube) -> None:
    kube.faults.forbidden.add(("create", "pods/eviction"))
    async with opened(kube, SETTINGS.model_copy(update={"if_lacking": "stop"})) as here:
        await until(lambda: here.cluster.is_broken)
        with pytest.raises(AbilityError, match="if_lacking"):
            await here.turn()


async def test_a_server_that_is_too_old_is_refused(kube: FakeKube) -> None:
    kube.version = "v1.31.9"
    async with opened(kube) as here:
        await until(lambda: here.cluster.is_broken)
        with pytest.raises(AbilityError, match=r"1\.31\.9"):
            await here.turn()


async def test_it_opens_without_an_api_server_and_goes_on_when_there_is_one(kube: FakeKube) -> None:
    await kube.stop()
    async with opened(kube) as here:
        here.cluster.carry_out(ORDER)
        await here.turn()
        assert here.cluster.observe(SystemTime().wall()) == ()
        await kube.start()
        await until(lambda: kube.count("create", "pods/binding") == 1)


async def test_a_new_term_sees_everything_anew_and_makes_nothing_twice(kube: FakeKube) -> None:
    async with opened(kube) as here:
        here.cluster.carry_out(ORDER)
        await here.turn()
        await until(lambda: kube.count("create", "pods/binding") == 1)
        await here.sink.close()
        await here.sink.open(here.core, None, LeaderHandle(lambda: None, lambda: True))
        await until(lambda: here.cluster.gangs.is_synced)
        await here.turn()
        await asyncio.sleep(0)
        assert (kube.count("create", "pods"), kube.count("create", "pods/binding")) == (1, 1)


async def test_pods_of_others_that_have_our_scheduler_and_no_queue_are_left_alone(kube: FakeKube) -> None:
    kube.add(PODS, pod("a", namespace="muster-jobs"))
    async with opened(kube) as here:
        await until(lambda: here.cluster.gangs.is_synced)
        await here.turn()
        assert kube.count("delete", "pods") == 0


def test_the_sink_of_the_settings_is_made_without_asking_anybody() -> None:
    assert isinstance(new_sink(SETTINGS), KubernetesSink)


def test_all_parts_of_a_cluster_ask_on_one_list() -> None:
    cluster = new_core("atlas", SETTINGS).cluster
    assert isinstance(cluster, KubernetesCluster)
    assert cluster.worklist is cluster.auxiliary.needs._steps.worklist  # type: ignore[attr-defined]


def workloads_of(core: AgentCore) -> Sequence[Part]:
    return (WorkloadsPart(core.workloads, now=SystemTime().wall, by_claims=False),)


JOB_SET_WATCH = ("watch", "jobsets.jobset.x-k8s.io")


@pytest.fixture
async def bare() -> AsyncIterator[FakeKube]:
    """Nobody installed JobSets."""
    async with fake_kube(without=frozenset({JOB_SETS.group})) as kube:
        kube.add(NAMESPACES, {"metadata": {"name": "physics"}})
        kube.add(NODES, node("n1"))
        yield kube


async def test_a_kind_that_is_installed_later_is_watched_from_then_on_by_one_watch(bare: FakeKube) -> None:
    async with opened(bare, parts=workloads_of, look_s=0.02) as here:
        await until(lambda: here.cluster.gangs.is_synced)
        assert bare.count(*JOB_SET_WATCH) == 0
        bare.register(JOB_SETS)
        bare.add(JOB_SETS, job_set("early"))
        await until(lambda: len(here.core.workloads.views) == 1)
        assert (bare.count(*JOB_SET_WATCH), bare.count("list")) == (1, 0)
        assert (bare.count("watch", "pods"), bare.count("watch", "nodes")) == (1, 1), "what is watched goes on"
        (described,) = (one for one in here.cluster.observe(SystemTime().wall()) if isinstance(one, ClusterSeen))
        assert "jobset.x-k8s.io" in described.description.served
        assert not any("jobset.x-k8s.io" in words for words in described.description.lacking)


async def test_a_kind_that_comes_later_without_the_right_to_watch_it_is_told(bare: FakeKube) -> None:
    bare.faults.forbidden.add(JOB_SET_WATCH)
    async with opened(bare, parts=workloads_of, look_s=0.02) as here:
        await until(lambda: here.cluster.gangs.is_synced)
        bare.register(JOB_SETS)

        def told() -> bool:
            seen = here.cluster.observe(SystemTime().wall())
            words = [text for one in seen if isinstance(one, ClusterSeen) for text in one.description.lacking]
            return any("permission to watch jobsets.jobset.x-k8s.io is missing" in text for text in words)

        await until(told)
        assert bare.count(*JOB_SET_WATCH) == 0


async def test_nothing_is_looked_for_where_every_kind_is_there(kube: FakeKube) -> None:
    core = new_core("atlas", SETTINGS)

    def never(*_: object) -> Never:
        raise AssertionError("there is nothing to begin or to tell")

    lookout = Lookout(
        workloads_of(core), Abilities("v1.34.0", frozenset()), start=never, tell=never, writes_in=(), seed=1, look_s=9e9
    )
    async with asyncio.timeout(5.0):
        await lookout.run(KubeConnection.plain(kube.url, user_agent="muster-agent/test"))
