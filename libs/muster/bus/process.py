"""Hosts services in one process: connections, one reader per log, one lease thread, shells, query responders.

A failed service recovers while the others continue. A connection that is closed permanently ends the process,
because its state can no longer be trusted; the supervisor restarts it (crash-only).
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

from faststream.nats import NatsBroker
from nats.aio.client import Client

from muster.bus.access import LEASE, MONITOR, READER, all_streams
from muster.bus.checkpoint import Checkpoints, CheckpointStore, Voidance
from muster.bus.checkpoint_store import CopiedCheckpoints, NatsCheckpoints
from muster.bus.clock import Clock
from muster.bus.connection import connect
from muster.bus.fold import PoisonedError
from muster.bus.health_server import HealthServer
from muster.bus.lease import LeaseThread
from muster.bus.limits import RESTART_BACKOFF_S, RESTART_CALM_S, SHUTDOWN_S, SHUTDOWN_TRIES, VOIDED_POLL_S, ShellLimits
from muster.bus.metrics import LOGS
from muster.bus.monitoring import watch_loop, watch_stores
from muster.bus.nats_log import SharedLog, log_of
from muster.bus.ports import LogError
from muster.bus.query import query_broker, responders
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.bus.shell import Shell, ShellParts, UnrecoverableError
from muster.bus.tracing import Tracing, about, make_tracing
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName

_logger = logging.getLogger(__name__)


@dataclass
class Condition:
    """State of one service of the process. stopped: why it has stopped, "" while it runs or starts."""

    service: str
    log: str
    stopped: str = ""
    failures: int = 0


Life = Callable[[], Awaitable[None]]
"""One run of a service: it never returns, and ends with an exception."""


@dataclass(frozen=True)
class Supervision:
    """Supervision of a service. voided: messages that operators let services skip. alone: nothing else is hosted here,
    so a halt ends the process with its exit code. on_poison: called with True at a halt, with False at a resume."""

    condition: Condition
    clock: Clock
    alone: bool = False
    voided: Callable[[], Awaitable[tuple[Voidance, ...]]] | None = None
    on_poison: Callable[[bool], None] = lambda _: None
    on_restart: Callable[[], None] = lambda: None


async def supervise(live: Life, how: Supervision) -> None:
    """Run `live` again and again: a failed run recovers after a bounded delay.

    A service whose core cannot fold a fact stops and reports it, until an operator lets it skip that fact: an
    earlier restart would fail again. Raises PoisonedError or UnrecoverableError if it is alone; else it never
    returns.
    """
    first_s, longest_s = RESTART_BACKOFF_S
    wait_s = 0.0
    condition = how.condition
    while True:
        started_s = how.clock.monotonic_s()
        try:
            await live()
            _logger.error("%s returned; a service runs until it is cancelled", condition.service)
            condition.stopped = "returned"
        except PoisonedError as error:
            _logger.critical("%s stopped: %s", condition.service, error, extra=about(error.trace))
            if how.alone:
                raise
            await _until_voided(error, how)
            wait_s = 0.0
            continue
        except UnrecoverableError as error:
            _logger.critical("%s stopped: %s", condition.service, error)
            condition.stopped = str(error)
            if how.alone:
                raise
        except Exception as error:
            _logger.exception("%s failed and is restarted", condition.service)
            condition.stopped = f"{type(error).__name__}: {error}"
        condition.failures += 1
        how.on_restart()
        calm = how.clock.monotonic_s() - started_s > RESTART_CALM_S
        wait_s = first_s if calm else min(longest_s, max(first_s, 2 * wait_s))
        await asyncio.sleep(wait_s)
        condition.stopped = ""


async def _until_voided(poisoned: PoisonedError, how: Supervision) -> None:
    how.condition.stopped = str(poisoned)
    how.on_poison(True)
    assert how.voided is not None, "only a service that folds can be poisoned"
    while True:
        await asyncio.sleep(VOIDED_POLL_S)
        try:
            voided = await how.voided()
        except LogError as error:
            _logger.warning("%s: cannot read the voided facts: %s", poisoned.service, error)
            continue
        if any(said.service == poisoned.service and said.seq == poisoned.seq for said in voided):
            _logger.warning("%s resumes: fact %d was voided", poisoned.service, poisoned.seq)
            how.condition.stopped = ""
            how.on_poison(False)
            return


class DisconnectedError(Exception):
    """A connection was closed permanently."""


@dataclass(eq=False)
class _Connection:
    """One connection. leaving: the process closes it itself, which ends nothing else."""

    user: str
    leaving: bool = False
    client: Client | None = None

    async def close(self) -> None:
        self.leaving = True
        if self.client is not None:
            await self.client.close()


class Process:
    """Resources of one process. `stack` closes everything that it opens, last opened first."""

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
        """Wait until `stop` is set, a connection is closed for good, or the only service halts."""
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
        connection = _Connection(LEASE)

        async def open_connection() -> Client:
            connection.client = await connect(self._settings, LEASE, on_closed=tell)
            return connection.client

        def tell(_: str) -> None:  # in the thread of the leases
            if not connection.leaving:
                self._loop.call_soon_threadsafe(self._on_closed, connection)

        def leave() -> None:
            connection.leaving = True

        ttl_s = self._settings.bus.lease_ttl_s
        leases = LeaseThread(open_connection, holder=self._holder, ttl_s=ttl_s)
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
        writing = await self._connection(service)
        if name not in self._logs:
            is_copy = self._settings.role == "centre" and name.role is StreamRole.LOG
            self._logs[name] = SharedLog(reader, name, is_copy=is_copy)
            self._stack.enter_context(LOGS.exporting(name.stream, self._logs[name].counters))
        self._logs[name].connections[service] = writing
        return self._logs[name]

    async def _connection(self, user: str) -> Client:
        if user not in self._connections:
            self._connections[user] = await self._open(user, self._stack)
        return self._connections[user]

    async def _open(self, user: str, stack: AsyncExitStack) -> Client:
        """Open a connection that `stack` closes; if it is closed otherwise, the process ends."""
        connection = _Connection(user)
        connection.client = await connect(self._settings, user, on_closed=lambda _: self._on_closed(connection))
        stack.push_async_callback(connection.close)
        return connection.client

    def _on_closed(self, connection: _Connection) -> None:
        if not connection.leaving and not self._closed.done():
            self._closed.set_result(connection.user)

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
        """Start one broker per service that declares queries, on a connection of that service's user."""
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
            connection = _Connection(name)
            broker = query_broker(
                self._settings,
                name,
                responders(name, declaration.queries, handlers),
                on_closed=lambda _, connection=connection: self._on_closed(connection),  # type: ignore[misc]
            )
            self._stack.push_async_callback(_stop, broker, connection)
            await broker.start()

    def _open_door(self) -> None:
        port = self._settings.metrics_port
        if not port:
            return
        try:
            server = HealthServer(self._settings.http_host, port, self._health, ready=self._ready)
        except OSError as error:
            _logger.error("metrics: port %d cannot be used, so no metrics are served: %s", port, error)  # noqa: TRY400
            return
        self._stack.callback(server.close)

    def _health(self) -> tuple[bool, dict[str, object]]:
        leading = {(shell.name, shell.log.name.stream): shell for shell in self.shells}
        report = []
        for condition in self._conditions:
            shell = leading.get((condition.service, condition.log))
            state = {} if shell is None else {"leading": shell.leading, "folded_seq": shell.folded_seq}
            report.append({**asdict(condition), **state})
        return not any(condition.stopped for condition in self._conditions), {"services": report}

    def _ready(self) -> tuple[bool, dict[str, object]]:
        """Return readiness: a follower is ready; a service that holds the lease but cannot start its term is not."""
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
        for task in self._tasks:  # `wait` raised the exception of the task, or it was logged
            if task.done() and not task.cancelled():
                task.exception()


def _checkpoints(connection: Client, log: SharedLog) -> CheckpointStore:
    """Return the checkpoints of the log; for a copied log, the copied checkpoints."""
    if log.is_copy:
        return CopiedCheckpoints(connection, log.name.cluster)
    return NatsCheckpoints(connection)


async def _stop(broker: NatsBroker, connection: _Connection) -> None:
    connection.leaving = True
    await broker.stop()
