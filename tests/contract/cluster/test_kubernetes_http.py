"""The same contract for the whole Kubernetes backend: sink, watches and writes, over HTTP to a fake API server.

Time is the world's: what happens there happens only while a test lets it pass, and after each step everything that
follows over HTTP is waited for.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from contract.cluster.kubernetes_world import World
from contract.cluster.suite import ClusterContract, moment
from kit.kube.fake import FakeKube
from muster.agent.core.cluster import Cluster, CreatePods, Effect, Observation, ResizePods
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.kubernetes.backend import new_core, watches_of
from muster.agent.kubernetes.sink import KubernetesSink
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import LeaderHandle
from muster.core import NS_PER_S, Instant
from muster.kube.connection import KubeConnection
from muster.kube.reflector import Reflector

SETTINGS = KubernetesSettings(image="busybox", lost_s=0.5, devices="device-plugin", writes=4, compare_s=3600.0)
ROUNDS_MAX = 1000


class WorldTime:
    """Implements `TimeSource` with the world's time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wall(self) -> Instant:
        return moment(self._world.now_s)

    def monotonic_s(self) -> float:
        return self._world.now_s


class OverHttp:
    """Implements `Cluster`: an open sink at a fake API server."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.kube = FakeKube()
        self.world = World(self.kube.store)
        for name in ("gpu-0001", "gpu-0002"):
            self.world.add_node(name)
        self.core = new_core("atlas", SETTINGS)
        cluster = self.core.cluster
        assert isinstance(cluster, KubernetesCluster)
        self.cluster = cluster
        self.sink = KubernetesSink(SETTINGS, connect=self._connect, watches=watches_of, clock=WorldTime(self.world))
        self.world.on_event = self._wait
        self._runner.run(self._open())
        self._wait()

    @property
    def now(self) -> Instant:
        return moment(self.world.now_s)

    def carry_out(self, effect: Effect) -> None:
        self.world.advance((effect.at - moment(0)) / NS_PER_S if hasattr(effect, "at") else 0)
        if isinstance(effect, CreatePods):
            self.world.plan(effect)
        self.cluster.carry_out(_counted(effect))
        self._wait()

    def observe(self, now: Instant) -> Sequence[Observation]:
        self.world.advance((now - moment(0)) / NS_PER_S)
        return tuple(seen for seen in self.cluster.observe(now) if type(seen).__name__ != "ClusterSeen")

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        self.cluster.acknowledge(observation, at)
        self._wait()

    def next_change(self) -> Instant | None:
        next_s = self.world.next_s()
        return None if next_s is None else moment(next_s)

    def close(self) -> None:
        self._runner.run(self._close())

    async def _connect(self) -> KubeConnection:
        return KubeConnection.plain(self.kube.url, user_agent="muster-agent/test")

    async def _open(self) -> None:
        await self.kube.start()
        await self.sink.open(self.core, None, LeaderHandle())

    async def _close(self) -> None:
        await self.sink.close()
        await self.kube.stop()

    def _wait(self) -> None:
        self._runner.run(self._settled())

    async def _settled(self) -> None:
        """Until the sink has seen all that there is, and every call that follows is answered."""
        for _ in range(ROUNDS_MAX):
            await self.sink.after_fold((), last_seq=0, now=self.now)
            self.kube.bookmark()
            await asyncio.sleep(0.001)
            version = self.kube.store.version
            seen = [watch._holdings.version for watch in self.sink.watching if isinstance(watch, Reflector)]
            if self.cluster.gangs.is_synced and seen and min(seen) >= version and not len(self.cluster.worklist):
                return
        raise AssertionError("the sink does not come to rest")


def _counted(effect: Effect) -> Effect:
    """The same where the kubelet picks the devices: slots say how many."""
    if isinstance(effect, CreatePods | ResizePods):
        slots = (slot.model_copy(update={"gpus": len(slot.devices), "devices": ()}) for slot in effect.slots)
        return replace(effect, slots=tuple(slots))
    return effect


class TestKubernetesOverHttp(ClusterContract):
    @pytest.fixture(autouse=True)
    def _runner(self) -> Iterator[None]:
        self.opened: list[OverHttp] = []
        with asyncio.Runner() as runner:
            self.runner = runner
            yield
            for cluster in self.opened:
                cluster.close()

    def new_cluster(self) -> Cluster:
        self.opened.append(OverHttp(self.runner))
        return self.opened[-1]

    def lose_node(self, cluster: Cluster, node: str, *, at_s: float) -> None:
        assert isinstance(cluster, OverHttp)
        cluster.world.at(at_s, lambda: cluster.world.set_ready(node, ready=False))
        cluster.world.at(at_s + 300, lambda: cluster.world.set_ready(node, ready=True))
