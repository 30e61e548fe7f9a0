"""Runs one core on one log: recover, follow (fold only), lead (fold, decide, append), and follow again.

Start-up and recovery after a crash are the same path. A follower folds and stands by; with the lease it starts a
term and decides. Every append is guarded by the service's fence, so the broker refuses a deposed leader (DESIGN
5.2). After an append, no decision is made until the commit was folded, so a core learns of its own decisions only
from the log.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from nats.aio.client import Client

from muster.bus.checkpoint import Checkpoints, Voidance
from muster.bus.clock import Clock
from muster.bus.fold import Folder
from muster.bus.leader_publisher import LeaderPublisher, SilentPublisher
from muster.bus.lease import Lease, Leases
from muster.bus.limits import ShellLimits
from muster.bus.metrics import ShellMetrics, shell_metrics
from muster.bus.ports import Batch, LogAppender, LogError, LogFullError, LogReader
from muster.bus.service import CoreService, LeaderHandle, Sink
from muster.bus.snapshots import Snapshots
from muster.bus.tracing import NoTracing, Tracing, about
from muster.core.fact import Core, Fact
from muster.core.instant import NS_PER_S, Instant, seconds_between
from muster.schemas.subjects import LogName

_logger = logging.getLogger(__name__)


class WakeableReader(LogReader, Protocol):
    """A reader that can be woken."""

    def wake(self) -> None:
        """Let a waiting read return."""
        ...


class ServiceLog(Protocol):
    """One log, as the shell of one service uses it."""

    name: LogName

    @property
    def is_copy(self) -> bool:
        """Return whether the log is a copy that is only followed here."""
        ...

    async def reader(self, *, after_seq: int) -> WakeableReader:
        """Return a reader of all facts after a sequence. Raises LogError."""
        ...

    def appender(self, service: str) -> LogAppender:
        """Return the appender of `service`."""
        ...

    async def voided(self) -> tuple[Voidance, ...]:
        """Return the facts that operators let services skip. Raises LogError."""
        ...

    async def first_seq(self) -> int:
        """Return the sequence of the oldest message, 1 if the log was never trimmed. Raises LogError."""
        ...

    async def newest_term(self, service: str) -> int:
        """Return the term of the service's newest fence, 0 without one. Raises LogError, also FenceBrokenError."""
        ...


@dataclass(frozen=True)
class ShellParts:
    """The dependencies of a shell. connection: of the service, for its sink."""

    log: ServiceLog
    leases: Leases
    checkpoints: Checkpoints
    holder: str
    clock: Clock
    connection: Client | None = None
    tracing: Tracing = field(default_factory=NoTracing)
    limits: ShellLimits = field(default_factory=ShellLimits)


class Effects:
    """The sink of one term, opened once the leader may act and closed when it leaves.

    The lease says who may act, and the term who may append. A log that is full takes no `term-started`; a service that
    `acts_without_term` then carries out what it folded all the same, as a leader does whose appends are refused.
    wake, now: as of `LeaderHandle`. may_act: whether the lease is held.
    """

    def __init__(
        self,
        service: CoreService,
        connection: Client | None,
        *,
        wake: Callable[[], None],
        may_act: Callable[[], bool],
        now: Callable[[], Instant],
    ) -> None:
        self._sink: Sink | None = service.sink() if service.sink is not None else None
        self._acts_without_term = service.acts_without_term
        self._connection = connection
        self._is_begun = self._is_open = False
        self._wake = wake
        self._failure: BaseException | None = None
        self._leader = LeaderHandle(wake, lambda: self._is_open and may_act(), now, self._fail)

    async def open(self, core: Core, *, has_term: bool) -> None:
        """Open the sink once the core is folded to the head; do nothing a second time, or while a term is required."""
        if self._sink is None or self._is_begun or not (has_term or self._acts_without_term):
            return
        assert self._connection is not None, "a service with a sink has a connection"
        self._is_begun = True
        await self._sink.open(core, self._connection, self._leader)
        self._is_open = True

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """Pass the folded facts to the open sink."""
        if self._sink is not None and self._is_open:
            await self._sink.after_fold(facts, last_seq=last_seq, now=now)

    def check(self) -> None:
        """Raise the failure of a task beside the folds."""
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Close the sink, also one that failed to open; no new effect starts."""
        self._is_open = False
        if self._sink is not None and self._is_begun:
            await self._sink.close()

    def _fail(self, error: BaseException) -> None:
        """Record the first error."""
        self._failure = self._failure or error
        self._wake()


class UnrecoverableError(Exception):
    """The log was trimmed, and there is no checkpoint that this service may use."""


class SteppedDownError(Exception):
    """The lease is lost, or a later term was seen: follow again."""


class RecoverAnewError(Exception):
    """An operator let this service skip a message: its state must be recovered again."""


class Shell:
    """One service on one log. `run` ends only by an exception or by cancellation; a new shell then recovers."""

    def __init__(self, service: CoreService, parts: ShellParts) -> None:
        self.service = service
        self.name = service.declaration.service
        self._parts = parts
        self.log = parts.log
        self._clock, self._limits = parts.clock, parts.limits
        self._scope = parts.log.name.scope
        self.metrics: ShellMetrics = shell_metrics(self.name, parts.log.name.stream)
        self._lease: Lease | None = None
        self._leads = False
        self._folder: Folder | None = None
        self._reader: WakeableReader | None = None
        self._snapshots = Snapshots(parts.checkpoints, self.name, parts.log.name, self.metrics, parts.limits)
        self._decided_ns = 0
        self.held_up = ""
        """Why this shell, which holds the lease, cannot start its term; "" without an obstacle."""

    @property
    def leading(self) -> bool:
        """Return whether this shell decides and answers now."""
        return self._leads and self._lease is not None and self._lease.held_at(self._clock.monotonic_s())

    @property
    def core(self) -> Core:
        """Return the core as folded so far. Only between folds, from the shell's own loop."""
        return self._state.core

    @property
    def folded_seq(self) -> int:
        """Return the folded sequence, 0 before recovery."""
        return 0 if self._folder is None else self._folder.last_seq

    def now(self) -> Instant:
        """Return the time at which this service decides and answers."""
        return self._clock.now(self._state.newest)

    async def run(self) -> None:
        """Recover, then follow and lead in turn.

        Raises PoisonedError (stop), UnrecoverableError, LogError, CheckpointUnavailableError and exceptions of a
        sink or a decision: then this shell is finished.
        """
        while True:
            try:
                await self._live()
            except RecoverAnewError:
                _logger.warning("%s on %s: a fact was voided; recovering again", self.name, self.log.name.stream)

    async def _live(self) -> None:
        uploads = asyncio.create_task(self._snapshots.run(), name=f"snapshots {self.name}")
        try:
            await self._recover()
            while True:
                lease = await self._follow()
                try:
                    await self._lead(lease)
                except SteppedDownError as error:
                    _logger.warning("%s on %s steps down: %s", self.name, self.log.name.stream, error)
                finally:
                    self._leads, self._lease, self.held_up = False, None, ""
                    self.metrics.leading.set(0)
                    await self._parts.leases.release(lease)
        finally:
            reader, self._reader = self._reader, None
            if reader is not None:
                await reader.close()
            await self._snapshots.settle(self._limits.settle_s)
            uploads.cancel()
            with suppress(asyncio.CancelledError):
                await uploads

    async def _recover(self) -> None:
        """Create a core from the newest checkpoint; the log after it is folded by following."""
        voided = await self.log.voided()
        recorded, facts = await self._parts.checkpoints.recover(self.name, voided)
        if recorded is None:
            first = await self.log.first_seq()
            if first > 1:
                raise UnrecoverableError(
                    f"{self.log.name.stream} begins at {first} and holds no checkpoint that {self.name} may use; "
                    "import the archive that was exported before the trim"
                )
        folder = Folder(self.name, self.service.core(), voided=voided, take=self._snapshots.offer)
        if recorded is not None:
            folder.restore(facts, seq=recorded.seq, time=Instant(recorded.time_ns))
        self._folder = folder
        self._reader = await self.log.reader(after_seq=folder.last_seq)
        _logger.info("%s on %s recovers from %d", self.name, self.log.name.stream, folder.last_seq)

    async def _follow(self) -> Lease:
        """Fold until the lease is acquired."""
        acquiring = asyncio.create_task(self._parts.leases.acquire(self.name, self._scope))
        acquiring.add_done_callback(lambda _: self._wake())
        try:
            while not acquiring.done():
                await self._fold_next(self._limits.idle_s)
            return acquiring.result()
        except BaseException:
            acquiring.cancel()
            with suppress(asyncio.CancelledError):
                await self._parts.leases.release(await acquiring)
            raise

    async def _lead(self, lease: Lease) -> None:
        """Decide until the lease is lost. Raises SteppedDownError then."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._wake)

        lease.when_lost(tell)
        self._lease = lease
        make = SilentPublisher if self.log.is_copy else LeaderPublisher
        publisher = make(self.log.appender(self.name), self._clock, self.metrics, self._limits)
        effects = Effects(
            self.service,
            self._parts.connection,
            wake=self._wake,
            may_act=lambda: lease.held_at(self._clock.monotonic_s()),
            now=self.now,
        )
        try:
            await self._start_term(lease, publisher, effects)
            self._state.takes_snapshots = self._parts.checkpoints.has_part_of(self.name)
            await effects.open(self._state.core, has_term=True)
            self._leads = True
            self.metrics.leading.set(1)
            while True:
                await self._turn(lease, publisher, effects)
        finally:
            self._leads = False
            self._state.takes_snapshots = False
            self.metrics.in_quarantine.set(0)
            await effects.close()

    async def _start_term(self, lease: Lease, publisher: LeaderPublisher, effects: Effects) -> None:
        """Fold to the head, append `term-started`, fold that. The old holder's deadline is over: the broker let go.

        The term is the lease's revision; where the log knows later ones (it was restored from an archive beside newer
        leases), more than the latest by that revision, so that no two leaders ever have the same.
        """
        while True:
            try:
                await self._fold_until(lease, await self._reading.head())
                newest = await self.log.newest_term(self.name)
                term = lease.term if lease.term > newest else newest + lease.term
                appended = await publisher.start_term(term=term, holder=self._parts.holder)
                break
            except LogError as error:
                self.held_up = str(error)
                _logger.warning("%s on %s cannot start its term yet: %s", self.name, self.log.name.stream, error)
                if isinstance(error, LogFullError):
                    await effects.open(self._state.core, has_term=False)
                wait_s = publisher.put_off()
                until_s = self._clock.monotonic_s() + wait_s
                while (left_s := until_s - self._clock.monotonic_s()) > 0:
                    batch = await self._fold_while_held(lease, left_s)
                    effects.check()
                    await effects.after_fold(self._state.given(batch), last_seq=self._state.last_seq, now=self.now())
        self.held_up = ""
        await self._fold_until(lease, appended.last_seq)
        self.metrics.term.set(term)

    async def _fold_until(self, lease: Lease, seq: int) -> None:
        while self._state.last_seq < seq:
            await self._fold_while_held(lease, self._limits.idle_s)

    async def _fold_while_held(self, lease: Lease, timeout_s: float) -> Batch:
        self._check_lease(lease)
        return await self._fold_next(timeout_s)

    def _check_lease(self, lease: Lease) -> None:
        if not lease.held_at(self._clock.monotonic_s()):
            raise SteppedDownError("the lease is lost")

    async def _turn(self, lease: Lease, publisher: LeaderPublisher, effects: Effects) -> None:
        """Read once, fold, tell the sink, and decide if something could have changed."""
        state = self._state
        batch = await self._fold_next(publisher.wait_s(self._wake_in_s(), folded_seq=state.last_seq))
        self._check_lease(lease)
        effects.check()
        publisher.folded(state)
        if state.term != publisher.term:
            raise SteppedDownError(f"term {state.term} was seen, own is {publisher.term}")
        now = self.now()
        wakeup = state.core.next_wakeup()
        due = wakeup is not None and wakeup <= now
        if batch.facts:
            publisher.wanted = True
        if batch.facts or due:
            await effects.after_fold(state.given(batch), last_seq=state.last_seq, now=now)
        if not (publisher.wanted or due or publisher.renewal_due() or publisher.retry_due()):
            return
        if publisher.asks_head:
            await publisher.ask_head(self._reading)
        if not publisher.may_append(folded_seq=state.last_seq):
            return
        await self._decide(publisher)
        if publisher.is_lost:
            raise SteppedDownError(
                f"appends of term {publisher.term} stay stale; a new term finds the newest fence, or none"
            )

    async def _decide(self, publisher: LeaderPublisher) -> None:
        limits, clock, state = self._limits, self._clock, self._state
        started_s, started_ns = clock.monotonic_s(), clock.wall()
        publisher.wanted = False
        drafts = state.core.decide(self.now())
        spent_s = clock.monotonic_s() - started_s
        is_slow = spent_s > limits.decide_s
        self.metrics.decide_s.observe(spent_s, about(drafts[0].trace) or None if is_slow and drafts else None)
        if is_slow:
            self.metrics.overruns.inc()
        tracing = self._parts.tracing
        if tracing.enabled:
            self._decided_ns = started_ns
            end_ns = started_ns + round(spent_s * NS_PER_S)
            tracing.work("decide", start_ns=started_ns, end_ns=end_ns, messages=len(drafts))
        if not drafts and not publisher.renewal_due() and not publisher.retry_due():
            return
        error = await publisher.append(drafts, folded_seq=state.last_seq)
        if tracing.enabled:
            tracing.work("send", start_ns=end_ns, end_ns=clock.wall(), messages=len(drafts), error=error)

    async def _fold_next(self, timeout_s: float) -> Batch:
        """Read once and fold. Raises RecoverAnewError, PoisonedError, and the exceptions of the read."""
        state, metrics = self._state, self.metrics
        batch = await self._reading.read(limit=self._limits.read_messages, timeout_s=timeout_s)
        if batch.last_seq == state.last_seq:
            return batch
        started_s = self._clock.monotonic_s()
        state.fold(batch)
        spent_s = self._clock.monotonic_s() - started_s
        metrics.fold_s.observe(spent_s)
        metrics.folded.inc(len(batch.facts))
        metrics.seq.set(batch.last_seq)
        metrics.lag.set(batch.pending)
        if self._parts.tracing.enabled:
            self._trace_fold(batch, spent_s)
        if state.must_recover:
            raise RecoverAnewError
        return batch

    def _trace_fold(self, batch: Batch, spent_s: float) -> None:
        tracing, end_ns = self._parts.tracing, self._clock.wall()
        start_ns = end_ns - round(spent_s * NS_PER_S)
        tracing.work("fold", start_ns=start_ns, end_ns=end_ns, messages=len(batch.facts))
        if self._leads:
            own = [fact for fact in batch.facts if fact.writer == self.name and fact.trace]
            tracing.own_facts(own, start_ns=self._decided_ns or start_ns)

    def _wake_in_s(self) -> float:
        """Return how long the core can wait for facts."""
        wakeup = self._state.core.next_wakeup()
        if wakeup is None:
            return self._limits.idle_s
        return min(self._limits.idle_s, max(self._limits.wake_s_min, seconds_between(self.now(), wakeup)))

    def _wake(self) -> None:
        if self._reader is not None:
            self._reader.wake()

    @property
    def _state(self) -> Folder:
        assert self._folder is not None, "the shell has not recovered yet"
        return self._folder

    @property
    def _reading(self) -> WakeableReader:
        assert self._reader is not None, "the shell has not recovered yet"
        return self._reader
