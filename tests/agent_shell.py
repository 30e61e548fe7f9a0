"""An agent at an API server without a bus: what it says becomes facts that it folds."""

from collections.abc import Awaitable, Callable

from muster.agent.core.core import AgentCore
from muster.agent.kubernetes.backend import new_core, parts_of, watches_of
from muster.agent.kubernetes.sink import KubernetesSink
from muster.bus.clock import SystemTime
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import Seat
from muster.bus.settings import ScalingSettings
from muster.core import Draft, Fact
from muster.core.preflight_settings import PreflightSettings
from muster.kube.connection import KubeConnection
from muster.schemas.base import Payload
from waiting import until_async


class AgentShell:
    """connect: to the API server. log: all facts so far."""

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
        self.core: AgentCore = new_core("atlas", settings, scaling, operated=operated, preflight=preflight)
        self.log: list[Fact] = []
        self.time = SystemTime()
        self._patience_s = patience_s
        self.sink = KubernetesSink(
            settings, connect=connect, watches=watches_of, parts=lambda core: parts_of(settings, core), clock=self.time
        )

    async def __aenter__(self) -> "AgentShell":
        await self.sink.open(self.core, None, Seat())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sink.close()

    def say(self, writer: str, kind: str, subject: str, name: str, payload: Payload) -> None:
        """Somebody's fact."""
        self._append(writer, Draft(kind, subject, name, payload))

    def _append(self, writer: str, draft: Draft) -> None:
        seq = len(self.log) + 1
        fact = Fact(
            f"f{seq}", seq, self.time.wall(), "atlas", writer, draft.kind, draft.subject_id, draft.name, draft.causes,
            draft.trace, draft.payload,
        )  # fmt: skip
        self.log.append(fact)
        self.core.apply(fact)

    def said(self, kind: str, name: str) -> list[Fact]:
        """Facts of this kind and name."""
        return [fact for fact in self.log if (fact.kind, fact.name) == (kind, name)]

    async def step(self) -> None:
        """What the shell does after each batch of facts."""
        await self.sink.after_fold((), last_seq=0, now=self.time.wall())
        for draft in self.core.decide(self.time.wall()):
            self._append("agent", draft)

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
