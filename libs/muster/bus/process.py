"""Hosts services in one process: their connections, one reader per log, one lease thread, shells, query responders.

Services that fail recover anew while the others go on. A connection that is closed for good ends the process, because
nothing in it can be trusted to go on; the supervisor starts it again (crash-only).
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

from faststream.nats import NatsBroker
from nats.aio.client import Client

from muster.bus.access import LEASE, MONITOR, READER, all_streams
from muster.bus.checkpoint import Checkpoints, CheckpointStore
from muster.bus.checkpoint_copy import CopiedCheckpoints
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.clock import Clock
from muster.bus.connection import connect
from muster.bus.health import Door
from muster.bus.lease import LeaseThread
from muster.bus.limits import SHUTDOWN_S, SHUTDOWN_TRIES, ShellLimits
from muster.bus.loop_watch import watch_loop
from muster.bus.metrics import LOGS
from muster.bus.query import query_broker, responders
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.bus.shared_log import SharedLog, log_of
from muster.bus.shell import Shell
from muster.bus.shell_parts import ShellParts
from muster.bus.store_watch import watch_stores
from muster.bus.supervise import Condition, Supervision, supervise
from muster.bus.tracing import Tracing, make_tracing
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName

_logger = logging.getLogger(__name__)


class DisconnectedError(Exception):
    """A connection was closed for good."""


@dataclass(eq=False)
class _Line:
    """One connection. leaving: we close it ourselves, which ends nothing else."""

    user: str
    leaving: bool = False
    client: Client | None = None

    async def close(self) -> None:
        self.leaving = True
        if self.client is not None:
            await self.client.close()


class Process:
    """What one process hosts. Everything that it opens is closed by `stack`, last opened first."""

    def __init__(self, services: Sequence[CoreService | Hosted], settings: Settings, stack: AsyncExitStack) -> None:
        self._services = services
        self._settings = settings
        self._stack = stack
        self._clock = Clock()
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[str] = self._loop.create_future()
        self._logs: dict[LogName, SharedLog] = {}
        self._connections: dict[str, Client] = {}
        self._conditions: list[Condition] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._tracings: list[Tracing] = []
        self._holder = f"{os.uname().nodename}/{os.getpid()}"
        self._alone = len({service.declaration.service for service in services}) == 1
        self.shells: list[Shell] = []

    async def start(self) -> None:
        """Connect and start everything; does not wait until services lead. Raises CredentialsError, OSError."""
        cores = [service for service in self._services if isinstance(service, CoreService)]
        if cores:
            leases = await self._leases()
            for core in cores:
                self.shells.append(await self._shell(core, leases))
        self._stack.push_async_callback(self._end_tracing)
        self._stack.push_async_callback(self._end_tasks)
        for shell in self.shells:
            self._supervise_shell(shell)
        for service in self._services:
            if not isinstance(service, CoreService):
                self._supervise_hosted(service)
        await self._start_answering()
        if self._logs:
            logs = [name.stream for name in self._logs]
            others = [stream for stream in all_streams(self._settings.clusters) if stream not in logs]
            watching = watch_stores(await self._connection(MONITOR), logs, others=others)
            self._tasks.append(asyncio.create_task(watching, name="stores"))
        self._tasks.append(asyncio.create_task(watch_loop(), name="loop"))
        self._open_door()

    async def wait(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, a connection is closed for good, or the only service stands still."""
        stopping = asyncio.create_task(stop.wait())
        ends: list[asyncio.Future[object]] = [stopping, self._closed, *self._tasks]  # type: ignore[list-item]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if self._closed in done:
            raise DisconnectedError(f"the connection of {self._closed.result()} was closed; the process ends")
        for task in self._tasks:
            if task in done:
                await task

    async def _leases(self) -> LeaseThread:
        line = _Line(LEASE)

        async def open_line() -> Client:
            line.client = await connect(self._settings, LEASE, on_closed=tell)
            return line.client

        def tell(_: str) -> None:  # in the thread of the leases
            if not line.leaving:
                self._loop.call_soon_threadsafe(self._on_closed, line)

        def leave() -> None:
            line.leaving = True

        ttl_s = self._settings.bus.lease_ttl_s
        leases = LeaseThread(open_line, holder=self._holder, ttl_s=ttl_s)
        self._stack.push_async_callback(leases.close)
        self._stack.callback(leave)
        await leases.start()
        return leases

    async def _shell(self, service: CoreService, leases: LeaseThread) -> Shell:
        name = service.declaration.service
        log = await self._log(log_of(service.role, service.cluster or self._settings.cluster), name)
        connection = self._connections[name]
        tracing = make_tracing(name, scope=log.name.scope, template=f"muster.{log.name.scope}.>")
        self._tracings.append(tracing)
        parts = ShellParts(
            log=log,
            leases=leases,
            checkpoints=Checkpoints(_checkpoints(connection, log), log.name),
            holder=self._holder,
            clock=Clock(),
            connection=connection,
            tracing=tracing,
            limits=ShellLimits(decide_s=self._settings.scheduler.decide_s),
        )
        return Shell(service, parts)

    async def _log(self, name: LogName, service: str) -> SharedLog:
        reader = await self._connection(READER)
        pen = await self._connection(service)
        if name not in self._logs:
            is_copy = self._settings.role == "centre" and name.role is StreamRole.LOG
            self._logs[name] = SharedLog(reader, name, is_copy=is_copy)
            self._stack.enter_context(LOGS.exporting(name.stream, self._logs[name].counters))
        self._logs[name].pens[service] = pen
        return self._logs[name]

    async def _connection(self, user: str) -> Client:
        if user not in self._connections:
            self._connections[user] = await self._open(user, self._stack)
        return self._connections[user]

    async def _open(self, user: str, stack: AsyncExitStack) -> Client:
        """A connection that `stack` closes; closed by anything else, it ends the process."""
        line = _Line(user)
        line.client = await connect(self._settings, user, on_closed=lambda _: self._on_closed(line))
        stack.push_async_callback(line.close)
        return line.client

    def _on_closed(self, line: _Line) -> None:
        if not line.leaving and not self._closed.done():
            self._closed.set_result(line.user)

    def _supervise_shell(self, shell: Shell) -> None:
        condition = self._condition(shell.name, shell.log.name.stream)

        def on_poison(poisoned: bool) -> None:
            shell.metrics.poisoned.set(int(poisoned))

        how = Supervision(
            condition,
            self._clock,
            alone=self._alone,
            voided=shell.log.voided,
            on_poison=on_poison,
            on_restart=shell.metrics.restarts.inc,
        )
        self._tasks.append(asyncio.create_task(supervise(shell.run, how), name=f"{condition.service} {condition.log}"))

    def _supervise_hosted(self, hosted: Hosted) -> None:
        async def live() -> None:
            async with AsyncExitStack() as stack:

                async def connected(user: str) -> Client:
                    return await self._open(user, stack)

                await hosted.run(connected, self._settings)

        name = hosted.declaration.service
        how = Supervision(self._condition(name, ""), self._clock, alone=self._alone)
        self._tasks.append(asyncio.create_task(supervise(live, how), name=name))

    def _condition(self, service: str, log: str) -> Condition:
        condition = Condition(service, log)
        self._conditions.append(condition)
        return condition

    async def _start_answering(self) -> None:
        """One broker per service that declares questions, on a connection of that service's user."""
        for declaration in {shell.name: shell.service.declaration for shell in self.shells}.values():
            if not declaration.queries:
                continue
            name = declaration.service
            handlers = {
                query: (handler, shell)
                for shell in self.shells
                if shell.name == name
                for query, handler in shell.service.queries.items()
            }
            line = _Line(name)
            broker = query_broker(
                self._settings,
                name,
                responders(name, declaration.queries, handlers),
                on_closed=lambda _, line=line: self._on_closed(line),  # type: ignore[misc]
            )
            self._stack.push_async_callback(_stop, broker, line)
            await broker.start()

    def _open_door(self) -> None:
        port = self._settings.metrics_port
        if not port:
            return
        try:
            door = Door(self._settings.http_host, port, self._health, ready=self._ready)
        except OSError as error:
            _logger.error("metrics: port %d cannot be used, so there are none: %s", port, error)  # noqa: TRY400
            return
        self._stack.callback(door.close)

    def _health(self) -> tuple[bool, dict[str, object]]:
        leading = {(shell.name, shell.log.name.stream): shell for shell in self.shells}
        report = []
        for condition in self._conditions:
            shell = leading.get((condition.service, condition.log))
            state = {} if shell is None else {"leading": shell.leading, "folded_seq": shell.folded_seq}
            report.append({**asdict(condition), **state})
        return not any(condition.stopped for condition in self._conditions), {"services": report}

    def _ready(self) -> tuple[bool, dict[str, object]]:
        """Who follows is ready to take over; whose turn it is and who cannot begin says that nobody leads."""
        well, _ = self._health()
        unled = [
            {"service": shell.name, "log": shell.log.name.stream, "because": shell.held_up}
            for shell in self.shells
            if shell.held_up
        ]
        stopped = [asdict(condition) for condition in self._conditions if condition.stopped]
        return well and not unled, {"nobody_leads": unled, "stopped": stopped}

    async def _end_tracing(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(tracing.close) for tracing in self._tracings))

    async def _end_tasks(self) -> None:
        late = set(self._tasks)
        for _ in range(SHUTDOWN_TRIES):  # Python 3.11 loses a cancellation in a reply that just came
            for task in late:
                task.cancel()
            if late:
                _, late = await asyncio.wait(late, timeout=SHUTDOWN_S / SHUTDOWN_TRIES)
        for task in late:
            _logger.error("%s did not end within %g s", task.get_name(), SHUTDOWN_S)
        for task in self._tasks:  # what made a task end was raised by `wait`, or was told when it happened
            if task.done() and not task.cancelled():
                task.exception()


def _checkpoints(connection: Client, log: SharedLog) -> CheckpointStore:
    """Those of the log, or the copies of those of a log that is a copy itself."""
    if log.is_copy:
        return CopiedCheckpoints(connection, log.name.cluster)
    return NatsCheckpoints(connection)


async def _stop(broker: NatsBroker, line: _Line) -> None:
    line.leaving = True
    await broker.stop()
