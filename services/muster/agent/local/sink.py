"""Run the agent beside local processes: orders are worked while it leads, and results wake the service."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from nats.aio.client import Client

from muster.agent.core.core import AgentCore
from muster.agent.core.local.attempt import Key, StartProcess
from muster.agent.core.local.cluster import LocalCluster
from muster.agent.local.processes import Processes, checkpoint_file
from muster.bus.clock import TimeSource
from muster.bus.service import LeaderHandle
from muster.bus.settings import LocalSettings
from muster.core import Core, Fact, Instant
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.job import Slot
from muster.schemas.subjects import output_subject
from muster.schemas.telemetry import OUTPUT_LINES_MAX, OutputLines


class LocalSink:
    """The sink of local processes; `cluster` is the name in the subjects of output."""

    def __init__(
        self, *, cluster: str, settings: LocalSettings, clock: TimeSource, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._name = cluster
        self._settings = settings
        self._clock = clock
        self._environment = environment
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._saved: dict[Key, int] = {}  # time of the last known checkpoint, by attempt

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Start the work. Processes of an earlier leader ended with it."""
        assert isinstance(core, AgentCore), "the agent's sink follows the agent's core"
        cluster = core.cluster
        assert isinstance(cluster, LocalCluster), "this sink works local processes"
        cluster.reset(self._clock.wall())
        self._saved.clear()
        self._task = asyncio.create_task(self._run(cluster, connection, leader), name="agent of local processes")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Work new orders. Raises the error that stopped the work, if any."""
        if self._task is not None and self._task.done():
            self._task.result()
        self._work.set()

    async def close(self) -> None:
        """End all programs: the next leader starts them again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def _run(self, cluster: LocalCluster, connection: Client, leader: LeaderHandle) -> None:
        def began(order: StartProcess) -> None:
            if order.spec.checkpointing is not None:  # checkpoints of earlier attempts are known
                self._saved.setdefault(order.key, self._written_ns(order.key))
            cluster.began(order.key, order.slot, self._clock.wall())
            leader.wake()

        def exited(key: Key, slot: Slot, code: int, words: str) -> None:
            self._look_for_checkpoints(cluster)  # the last one may be newer than the last look
            cluster.exited(key, slot, code, at=self._clock.wall(), words=words)
            self._work.set()
            leader.wake()

        async def said(order: StartProcess, data: bytes) -> None:
            if connection.is_connected:
                for body in self._messages(order, data):
                    await connection.publish(output_subject(self._name, order.key[0]), body)

        settings = self._settings
        processes = Processes(settings.directory, self._environment, began, exited, said, secrets=settings.secrets)
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.checkpoint_poll_s):
                        await self._work.wait()
                self._work.clear()
                while leader.leads() and (order := cluster.take()) is not None:
                    processes.work(order)
                living = {order.key for order in processes.orders}
                if self._look_for_checkpoints(cluster):
                    leader.wake()
                self._saved = {key: at for key, at in self._saved.items() if key in living}
        finally:
            await processes.close()
            cluster.reset(self._clock.wall())

    def _look_for_checkpoints(self, cluster: LocalCluster) -> bool:
        found = False
        for key, known in self._saved.items():
            written = self._written_ns(key)
            if written > known:
                self._saved[key] = written
                cluster.saved(key)
                found = True
        return found

    def _written_ns(self, key: Key) -> int:
        try:
            return checkpoint_file(self._settings.directory, key[0]).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _messages(self, order: StartProcess, data: bytes) -> Iterator[bytes]:
        lines = data.decode(errors="replace").splitlines()
        for first in range(0, len(lines), OUTPUT_LINES_MAX):
            printed = OutputLines(
                job_id=order.key[0],
                attempt=order.key[1],
                at=self._clock.wall(),
                group=order.slot.group,
                replica=order.slot.replica,
                lines=tuple(line[:TEXT_CHARS_MAX] for line in lines[first : first + OUTPUT_LINES_MAX]),
            )
            yield printed.model_dump_json().encode()
