"""Kinds that are installed while the agent runs: looked for now and then, and watched from then on.

One small request a minute (the list of API groups), and none as soon as all kinds are there. A kind that appears costs
one watch of its own; what is watched already goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace

from muster.agent.kubernetes.abilities import GROUPS_OF, Abilities, find_abilities, served_groups
from muster.agent.kubernetes.parts import GrowingPart, Part, Running, Watch, all_synced
from muster.core.seeded import uniform
from muster.kube.connection import KubeConnection
from muster.kube.dialects import VersionedTransport, is_served
from muster.kube.errors import KubeConfigError, KubeError
from muster.kube.permissions import Feature

LOOK_S = 60.0
"""Between two looks, on average: from half of it to one and a half, so that replicas do not ask together."""

_logger = logging.getLogger(__name__)


class Lookout:
    """parts: of which some grow. start: begins a watch. tell: what can be had now. writes_in: see `find_abilities`."""

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
        """Until every kind is watched, or it is cancelled."""
        looks = 0
        async with asyncio.TaskGroup() as tasks:
            while lacking := self._lacking():
                looks += 1
                await asyncio.sleep(self._look_s * (0.5 + uniform(self._seed, "kinds", looks)))
                try:
                    for watching in await self._look(connection, lacking):
                        tasks.create_task(watching)
                except (KubeError, KubeConfigError) as error:
                    _logger.info("kinds are not looked for now: %s", error)

    async def follow(self, speaking: VersionedTransport) -> None:
        """Tell of it when an upgrade of the API server changes the version in which devices are spoken of.

        At most once in `look_s`: while replicas of the server differ, it may change with every answer.
        """
        while True:
            await speaking.moved.wait()
            speaking.moved.clear()
            if speaking.version != self._abilities.devices_api:
                _logger.warning("resource.k8s.io is spoken as %s now: the API server serves it so", speaking.version)
                self._abilities = replace(self._abilities, devices_api=speaking.version)
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
        _logger.warning("kinds are served now: %s", ", ".join(sorted(GROUPS_OF[feature] for feature in found)))
        for words in more.lacking(found):
            _logger.warning("the cluster lacks something: %s", words)
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
        if Feature.DRA in features:  # who picks devices was not known before
            self._tell(self._abilities)
