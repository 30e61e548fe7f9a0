"""Run the agent at an API server: watches feed the cluster's core, its calls are worked, and news wake the shell.

Only the leader's sink is open. Leading does not wait for the API server: without it the agent folds on, and calls wait.
A permanent failure stops the service (crash-only) with the reason.
Kinds that are installed while the agent runs are found by a small request a minute (the list of API groups), which ends
once all kinds are there. A new kind costs one watch of its own; the other watches continue.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace

from muster.agent.core.core import AgentCore
from muster.agent.core.kubernetes.calls import Call, Outcome
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.kubernetes.abilities import (
    GROUPS_OF,
    Abilities,
    AbilityError,
    described,
    find_abilities,
    served_groups,
)
from muster.agent.kubernetes.parts import GrowingPart, Part, Running, Watch, all_synced
from muster.agent.kubernetes.workers import Workers, perform
from muster.bus.clock import TimeSource
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import LeaderHandle
from muster.core import Core, Fact, Instant
from muster.core.seeded import uniform
from muster.kube.connection import KubeConnection
from muster.kube.dialects import VersionedTransport, is_served
from muster.kube.errors import KubeConfigError, KubeError, backoff_s
from muster.kube.permissions import Feature

LOOK_S = 60.0
"""Average time between two looks: from half to one and a half of it, so that replicas do not ask together."""

_logger = logging.getLogger(__name__)


class Lookout:
    """Looks for kinds that are installed later. `start` begins a watch; `tell` reports the abilities."""

    def __init__(
        self,
        parts: Sequence[Part],
        abilities: Abilities,
        *,
        start: Callable[[Watch], Running],
        tell: Callable[[Abilities], None],
        writes_in: Sequence[str],
        seed: int,
        look_s: float = LOOK_S,
    ) -> None:
        self._parts = [part for part in parts if isinstance(part, GrowingPart)]
        self._abilities = abilities
        self._start = start
        self._tell = tell
        self._writes_in = writes_in
        self._seed = seed
        self._look_s = look_s

    async def run(self, connection: KubeConnection) -> None:
        """Run until every kind is watched, or until cancelled."""
        looks = 0
        async with asyncio.TaskGroup() as tasks:
            while lacking := self._lacking():
                looks += 1
                await asyncio.sleep(self._look_s * (0.5 + uniform(self._seed, "kinds", looks)))
                try:
                    for watching in await self._look(connection, lacking):
                        tasks.create_task(watching)
                except (KubeError, KubeConfigError) as error:
                    _logger.info("cannot look for new kinds now: %s", error)

    async def follow(self, versioned: VersionedTransport) -> None:
        """Report when an upgrade of the API server changes the version of `resource.k8s.io`.

        At most once in `look_s`: while replicas of the server differ, it may change with every answer.
        """
        while True:
            await versioned.moved.wait()
            versioned.moved.clear()
            if versioned.version != self._abilities.devices_api:
                _logger.warning("the API server serves resource.k8s.io/%s now", versioned.version)
                self._abilities = replace(self._abilities, devices_api=versioned.version)
                self._tell(self._abilities)
            await asyncio.sleep(self._look_s)

    def _lacking(self) -> frozenset[Feature]:
        return self._abilities.unserved(feature for part in self._parts for feature in part.late_features)

    async def _look(self, connection: KubeConnection, lacking: frozenset[Feature]) -> list[Coroutine[None, None, None]]:
        groups = await served_groups(connection)
        found = [feature for feature in lacking if is_served(GROUPS_OF[feature], groups)]
        if not found:
            return []
        more = await find_abilities(connection, wanted=found, writes_in=self._writes_in)
        self._abilities = self._abilities.grown(found, more)
        had = [feature for feature in found if more.has(feature)]
        _logger.warning(
            "the API server serves new kinds: %s", ", ".join(sorted(GROUPS_OF[feature] for feature in found))
        )
        for words in more.lacking(found):
            _logger.warning("missing API server capability: %s", words)
        self._tell(self._abilities)
        begun: list[Coroutine[None, None, None]] = []
        for part in self._parts:
            running = [self._start(watch) for watch in part.later(had)]
            begun += [one.run() for one in running]
            begun.append(self._synced(part, running, had))
        return begun

    async def _synced(self, part: GrowingPart, running: list[Running], features: Sequence[Feature]) -> None:
        await all_synced(running)
        part.later_synced(features)
        if Feature.DRA in features:  # now it is known who picks devices
            self._tell(self._abilities)


TICK_S = 0.1
"""Between two checks for moments that have come."""
SETTLE_S = 0.005
"""Between two evaluations: under load, changes in between are evaluated together."""
ABILITIES_S_MAX = 10.0
"""Maximum wait before the API server's abilities are queried again."""

Connect = Callable[[], Awaitable[KubeConnection]]
"""Opens a connection that sends each request once."""
Watches = Callable[[KubernetesCluster, KubernetesSettings], Sequence[Watch]]
Parts = Callable[[AgentCore], Sequence[Part]]


class KubernetesSink:
    """The sink of the leader. `watches` are those of pods and nodes, `parts` everything else.

    `seed` is the process' and spreads reconnects; `look_s` is the interval for kinds that are not served yet.
    """

    features = (Feature.DISRUPTION_BUDGETS,)
    """Optional features of pods and nodes."""

    def __init__(
        self,
        settings: KubernetesSettings,
        *,
        connect: Connect,
        watches: Watches,
        parts: Parts = lambda _: (),
        clock: TimeSource,
        seed: int = 0,
        look_s: float = LOOK_S,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._watches = watches
        self._make_parts = parts
        self._clock = clock
        self._seed = seed
        self._look_s = look_s
        self._latest = Instant(0)
        self._opened: _Open | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, core: Core, connection: object, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Start the watches and workers."""
        assert isinstance(core, AgentCore), "the agent's sink follows the agent's core"
        cluster = core.cluster
        assert isinstance(cluster, KubernetesCluster), "this sink works a Kubernetes cluster"
        cluster.reset()
        self._opened = _Open(cluster, tuple(self._make_parts(core)), leader, self._now)
        self._task = asyncio.create_task(self._run(self._opened), name="agent at the API server")
        self._task.add_done_callback(lambda _: self._ended(cluster, leader))

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Have the calls worked that follow from the facts. Raises the error that stopped the watches or workers."""
        if self._task is not None and self._task.done():
            self._task.result()
        self._latest = max(self._latest, now)
        if self._opened is not None:
            for part in self._opened.parts:
                part.after_fold(facts, now)
            self._opened.settle()

    async def close(self) -> None:
        """Stop everything; raises the error that had stopped it before, if any."""
        task, self._task = self._task, None
        opened, self._opened = self._opened, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        if opened is not None:
            opened.cluster.reset()
        if task is not None and not task.cancelled():
            task.result()  # it ended early: raise its error

    @property
    def watching(self) -> Sequence[Running]:
        """Return the running watches, for metrics."""
        return () if self._opened is None else self._opened.running

    def _now(self) -> Instant:
        """Return the time, never backwards and never before the log's."""
        self._latest = max(self._latest, self._clock.wall())
        return self._latest

    def _ended(self, cluster: KubernetesCluster, leader: LeaderHandle) -> None:
        """Wake the shell, so that `after_fold` raises the error."""
        cluster.is_broken = True
        leader.wake()

    async def _run(self, opened: "_Open") -> None:
        async with await self._connect() as connection:
            wanted = (*self.features, *(feature for part in opened.parts for feature in part.features))
            abilities = await self._abilities(connection, wanted)
            watches = [*self._watches(opened.cluster, self._settings)]
            for part in opened.parts:
                watches += part.watches(abilities)
            opened.workers = self._workers(opened, connection)
            async with asyncio.TaskGroup() as tasks:
                needed: list[Running] = []
                for number, watch in enumerate(watches):
                    running = self._started(watch, connection, opened, number)
                    opened.running.append(running)
                    tasks.create_task(running.run())
                    if watch.is_needed:
                        needed.append(running)
                for part in opened.parts:
                    tasks.create_task(part.run(connection))
                tasks.create_task(opened.workers.run())
                tasks.create_task(_tick(opened))
                tasks.create_task(_settle(opened))
                await all_synced(needed)
                self._synced(opened, abilities, wanted)
                lookout = self._lookout(opened, connection, abilities, wanted)
                tasks.create_task(lookout.run(connection))
                tasks.create_task(lookout.follow(connection.versioned))

    def _started(self, watch: Watch, connection: KubeConnection, opened: "_Open", number: int) -> Running:
        return watch.start(
            connection, opened.after_batch, self._now, seed=self._seed + number, compare_s=self._settings.compare_s
        )

    def _workers(self, opened: "_Open", connection: KubeConnection) -> Workers:
        async def send(call: Call) -> Outcome:
            return await perform(connection, call)

        return Workers(
            opened.cluster,
            send,
            most=self._settings.writes,
            may_write=opened.leader.leads,
            now=self._now,
            after=opened.look,
        )

    def _lookout(
        self, opened: "_Open", connection: KubeConnection, abilities: Abilities, wanted: Sequence[Feature]
    ) -> Lookout:
        def start(watch: Watch) -> Running:
            running = self._started(watch, connection, opened, len(opened.running))
            opened.running.append(running)
            return running

        def tell(now: Abilities) -> None:
            self._describe(opened, now, wanted)
            opened.look()

        return Lookout(
            opened.parts,
            abilities,
            start=start,
            tell=tell,
            writes_in=self._settings.writes_in,
            seed=self._seed,
            look_s=self._look_s,
        )

    def _describe(self, opened: "_Open", abilities: Abilities, wanted: Sequence[Feature]) -> None:
        claims = any(part.picks_devices() for part in opened.parts)
        opened.cluster.describe(described(abilities, self._settings, claims=claims, wanted=wanted))

    def _synced(self, opened: "_Open", abilities: Abilities, wanted: Sequence[Feature]) -> None:
        self._describe(opened, abilities, wanted)
        opened.cluster.synced()
        opened.settle()

    async def _abilities(self, connection: KubeConnection, wanted: Sequence[Feature]) -> Abilities:
        """Return the API server's abilities once it answers. Raises AbilityError as the settings require."""
        attempt = 0
        while True:
            attempt += 1
            try:
                abilities = await find_abilities(connection, wanted=wanted, writes_in=self._settings.writes_in)
            except (KubeError, KubeConfigError) as error:
                wait_s = backoff_s(attempt, seed=self._seed, max_s=ABILITIES_S_MAX)
                _logger.warning("cannot query the API server's capabilities, retrying in %.1f s: %s", wait_s, error)
                await asyncio.sleep(wait_s)
                continue
            lacking = abilities.lacking(wanted)
            if lacking and self._settings.if_lacking == "stop":
                raise AbilityError(f"{lacking[0]} (kubernetes.if_lacking is `stop`)")
            for words in lacking:
                _logger.warning("missing API server capability: %s", words)
            return abilities


class _Open:
    """State of one leader term."""

    def __init__(
        self, cluster: KubernetesCluster, parts: tuple[Part, ...], leader: LeaderHandle, now: Callable[[], Instant]
    ) -> None:
        self.cluster = cluster
        self.parts = parts
        self.leader = leader
        self.workers: Workers | None = None
        self.running: list[Running] = []
        self._now = now
        self._had_news = False
        self._look = asyncio.Event()

    def look(self) -> None:
        """Request an evaluation soon, because something was seen or done."""
        self._look.set()

    async def looked_for(self) -> None:
        """Wait until an evaluation is requested."""
        await self._look.wait()

    def settle(self) -> None:
        """Evaluate what was seen, folded or done: hand out calls, and wake the shell once for news."""
        self._look.clear()
        now = self._now()
        self.cluster.settle(now)
        for line in self.cluster.notes.drain():
            _logger.warning("%s", line)
        if self.workers is not None:
            self.workers.feed()
        has_news = self.cluster.has_news
        if has_news and not self._had_news:
            self.leader.wake()
        self._had_news = has_news

    async def after_batch(self) -> None:
        """Request an evaluation after a watch fed a batch."""
        self.look()


async def _tick(opened: _Open) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        opened.look()


async def _settle(opened: _Open) -> None:
    while True:
        await opened.looked_for()
        opened.settle()
        await asyncio.sleep(SETTLE_S)
