"""An agent at an API server without a bus: what it decides becomes facts that it folds, stamped by the real clock."""

from collections.abc import Awaitable, Callable

from kit.log import VirtualService
from kit.waiting import until_async
from muster.agent.kubernetes.backend import new_core, parts_of, watches_of
from muster.agent.kubernetes.sink import KubernetesSink
from muster.bus.clock import SystemTime
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import LeaderHandle
from muster.core import Fact
from muster.core.settings import PreflightSettings, ScalingSettings
from muster.kube.connection import KubeConnection
from muster.schemas.base import Payload


class AgentShell:
    """connect: to the API server."""

    def __init__(
        self,
        settings: KubernetesSettings,
        scaling: ScalingSettings,
        connect: Callable[[], Awaitable[KubeConnection]],
        *,
        operated: str = "",
        patience_s: float = 10.0,
        preflight: PreflightSettings | None = None,
    ) -> None:
        self.time = SystemTime()
        self.core = new_core("atlas", settings, scaling, operated=operated, preflight=preflight)
        self._cluster = VirtualService("agent", self.core, cluster="atlas", start=self.time.wall())
        self._patience_s = patience_s
        self.sink = KubernetesSink(
            settings, connect=connect, watches=watches_of, parts=lambda core: parts_of(settings, core), clock=self.time
        )

    async def __aenter__(self) -> "AgentShell":
        await self.sink.open(self.core, None, LeaderHandle())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sink.close()

    @property
    def log(self) -> list[Fact]:
        """All facts so far."""
        return self._cluster.log

    def write(self, writer: str, kind: str, subject: str, name: str, payload: Payload) -> None:
        """Append a fact of another service."""
        self._cluster.now = self.time.wall()
        self._cluster.write(writer, kind, subject, name, payload)

    def facts(self, kind: str, name: str) -> list[Fact]:
        """Facts of this kind and name."""
        return [fact for fact in self.log if (fact.kind, fact.name) == (kind, name)]

    async def step(self) -> None:
        """What the shell does after each batch of facts."""
        await self.sink.after_fold((), last_seq=0, now=self.time.wall())
        self._cluster.now = self.time.wall()
        self._cluster.decide_once("agent")

    async def until(self, check: Callable[[], bool]) -> None:
        """Go on until it is so."""

        async def checked() -> bool:
            await self.step()
            return check()

        await until_async(checked, patience_s=self._patience_s)

    async def until_async(self, check: Callable[[], Awaitable[bool]]) -> None:
        """The same of what is asked at the API server."""

        async def checked() -> bool:
            await self.step()
            return await check()

        await until_async(checked, patience_s=self._patience_s)
