"""Leases of the leaders of services. Key `<service>.<scope>` in the KV bucket `leases`, term = its revision.

Taken by `create`, kept by `update(last=revision)`; the bucket's age limit expires leases that are not renewed
(`reference/messaging.md` section 6: a per-message TTL on create is dropped by the next update). All leases of a process
are renewed by one thread with its own connection and loop, so a long decision does not lose them. A lease only permits
effects: appends are guarded by the fence, not by a clock (DESIGN 5.1, 5.2).
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.kv import KeyValue

from muster.bus.clock import Clock
from muster.bus.limits import (
    LEASE_CALL_ASKS_MAX,
    LEASE_JOIN_S,
    LEASE_POLLS_PER_TTL,
    LEASE_RENEWALS_PER_TTL,
    LEASE_TOLD_S,
)
from muster.bus.names import LEASES_BUCKET
from muster.bus.ports import LogUnavailableError

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class LeaseTakenError(Exception):
    """Another process holds the key, or it changed since the given revision."""


class LeaseStore(Protocol):
    """Storage of leases. Every call raises LogUnavailableError if there was no answer."""

    async def create(self, key: str, holder: str) -> int:
        """Take a free key; its revision. Raises LeaseTakenError."""
        ...

    async def update(self, key: str, holder: str, *, last: int) -> int:
        """Renew a key whose revision is still `last`; return the new revision. Raises LeaseTakenError."""
        ...

    async def delete(self, key: str, *, last: int) -> None:
        """Delete a key whose revision is still `last`. Raises LeaseTakenError."""
        ...


class Lease:
    """One taken lease. term: the revision at which it was taken; every later holder has a larger one.

    deadline_s: monotonic; counted from before the renewal was sent, so the broker never lets go earlier.
    """

    def __init__(self, key: str, *, term: int, deadline_s: float) -> None:
        self.key = key
        self.term = term
        self.revision = term
        self.deadline_s = deadline_s
        self.is_lost = False
        self._tell: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        """Raise TypeError: a lease is valid only at a given time."""
        raise TypeError("ask lease.held_at(now_s): a lease is true only at a moment")

    def held_at(self, now_s: float) -> bool:
        """Return whether the lease is held at a time of the monotonic clock."""
        return not self.is_lost and now_s < self.deadline_s

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Have `tell` called, once and from the lease's thread, as soon as the lease is lost."""
        self._tell = tell
        if self.is_lost:
            tell()

    def lose(self) -> None:
        """Mark the lease as lost."""
        if self.is_lost:
            return
        self.is_lost = True
        if self._tell is not None:
            self._tell()


@dataclass(eq=False)
class Claim:
    """A request for a lease. A flag withdraws it, since a cancellation may get lost in a reply that just arrived."""

    key: str
    given_up: bool = False
    lease: Lease | None = None


class Leases(Protocol):
    """Interface of a shell to leases."""

    async def acquire(self, service: str, scope: str) -> Lease:
        """Wait until the lease is ours."""
        ...

    async def release(self, lease: Lease) -> None:
        """Let go, so that the next holder need not wait."""
        ...


class LeaseKeeper:
    """Takes and renews leases on the running loop. `LeaseThread` runs it in its own loop."""

    def __init__(self, store: LeaseStore, *, holder: str, ttl_s: float, clock: Clock) -> None:
        self._store = store
        self._holder = holder
        self._ttl_s = ttl_s
        self._clock = clock
        self._held: dict[str, Lease] = {}
        self._told_s = float("-inf")

    async def acquire(self, service: str, scope: str) -> Lease:
        """Acquire a lease."""
        claim = Claim(f"{service}.{scope}")
        await self.take(claim)
        assert claim.lease is not None, "the claim was given up"
        return claim.lease

    async def take(self, claim: Claim) -> None:
        """Wait until the claim has its lease or was given up. Polls, since an expired key gives no watch event."""
        key = claim.key
        while not claim.given_up:
            sent_s = self._clock.monotonic_s()
            try:
                term = await self._store.create(key, self._holder)
            except (LeaseTakenError, LogUnavailableError) as error:
                if isinstance(error, LogUnavailableError):
                    self._tell(key, error)
                await asyncio.sleep(self._ttl_s / LEASE_POLLS_PER_TTL)
                continue
            lease = Lease(key, term=term, deadline_s=sent_s + self._ttl_s)
            self._held[key] = claim.lease = lease
            if claim.given_up:
                await self.release(lease)
            return

    async def give_up(self, claim: Claim) -> None:
        """Withdraw a claim; release a lease that it already has."""
        claim.given_up = True
        if claim.lease is not None:
            await self.release(claim.lease)

    async def release(self, lease: Lease) -> None:
        """Release a lease."""
        if self._held.get(lease.key) is lease:
            del self._held[lease.key]
        was_lost, lease.is_lost = lease.is_lost, True
        if was_lost:
            return
        try:
            await self._store.delete(lease.key, last=lease.revision)
        except (LeaseTakenError, LogUnavailableError) as error:
            _logger.info("lease %s not deleted, it expires: %s", lease.key, error)

    async def renew_all(self) -> None:
        """Renew every lease once; what cannot be renewed in time is lost."""
        await asyncio.gather(*(self._renew(lease) for lease in tuple(self._held.values())))

    async def run(self) -> None:
        """Renew leases until cancelled."""
        while True:
            await asyncio.sleep(self._ttl_s / LEASE_RENEWALS_PER_TTL)
            await self.renew_all()

    async def release_all(self) -> None:
        """Let go of everything."""
        for lease in tuple(self._held.values()):
            await self.release(lease)

    async def _renew(self, lease: Lease) -> None:
        sent_s = self._clock.monotonic_s()
        try:
            lease.revision = await self._store.update(lease.key, self._holder, last=lease.revision)
            lease.deadline_s = sent_s + self._ttl_s
        except LeaseTakenError:
            self._lose(lease, "another process holds it, or it expired")
        except LogUnavailableError:
            # A lost answer may have moved the revision; then the next try says taken, and the shell starts over.
            if self._clock.monotonic_s() >= lease.deadline_s:
                self._lose(lease, "the broker did not answer in time")

    def _tell(self, key: str, error: LogUnavailableError) -> None:
        """Log why the service has no leader, at a limited rate: every service polls several times a second."""
        now_s = self._clock.monotonic_s()
        if now_s - self._told_s >= LEASE_TOLD_S:
            self._told_s = now_s
            _logger.warning("lease %s cannot be taken yet: %s", key, error)

    def _lose(self, lease: Lease, why: str) -> None:
        if self._held.get(lease.key) is lease:
            del self._held[lease.key]
        _logger.warning("lease %s lost: %s", lease.key, why)
        lease.lose()


class KvLeases:
    """Leases in the bucket `leases`, which bootstrap made with its TTL."""

    def __init__(self, bucket: KeyValue, *, call_s: float) -> None:
        self._bucket = bucket
        self._call_s = call_s

    @classmethod
    async def open(cls, client: Client, *, timeout_s: float) -> "KvLeases":
        """On a connection of the lease's own user. Raises nats errors if there is no such bucket."""
        bucket = await client.jetstream(timeout=timeout_s).key_value(LEASES_BUCKET)
        return cls(bucket, call_s=LEASE_CALL_ASKS_MAX * timeout_s)

    async def create(self, key: str, holder: str) -> int:
        """Create a lease."""
        return await _answered(self._bucket.create(key, holder.encode()), self._call_s)

    async def update(self, key: str, holder: str, *, last: int) -> int:
        """Renew a lease."""
        return await _answered(self._bucket.update(key, holder.encode(), last=last), self._call_s)

    async def delete(self, key: str, *, last: int) -> None:
        """Delete a lease."""
        await _answered(self._bucket.delete(key, last=last), self._call_s)


async def _answered(request: Awaitable[T], call_s: float) -> T:
    """call_s: of the whole call, for the client bounds its waiting for answers and not its writing."""
    try:
        async with asyncio.timeout(call_s):
            return await request
    except nats.js.errors.KeyWrongLastSequenceError as error:
        raise LeaseTakenError(str(error)) from error
    except nats.js.errors.APIError as error:
        if error.err_code in (10071, 10164):
            raise LeaseTakenError(str(error)) from error
        raise LogUnavailableError(str(error)) from error
    except (nats.errors.Error, nats.js.errors.Error, OSError) as error:
        raise LogUnavailableError(f"{type(error).__name__}: {error}") from error


class LeaseThread:
    """All leases of one process, in one thread with its own loop and connection. `Leases` for any loop."""

    def __init__(
        self, connect: Callable[[], Awaitable[Client]], *, holder: str, ttl_s: float, clock: Clock | None = None
    ) -> None:
        self._connect = connect
        self._holder = holder
        self._ttl_s = ttl_s
        self._clock = clock or Clock()
        self._loop = asyncio.new_event_loop()
        self._keeper: LeaseKeeper | None = None
        self._client: Client | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="leases", daemon=True)

    async def start(self) -> None:
        """Connect. Raises what connecting raises."""
        self._thread.start()
        await self._there(self._open())

    async def acquire(self, service: str, scope: str) -> Lease:
        """Acquire a lease."""
        assert self._keeper is not None, "start() was not awaited"
        claim = Claim(f"{service}.{scope}")
        taking = asyncio.run_coroutine_threadsafe(self._keeper.take(claim), self._loop)
        try:
            await asyncio.shield(asyncio.wrap_future(taking))
        except asyncio.CancelledError:
            asyncio.run_coroutine_threadsafe(self._keeper.give_up(claim), self._loop)
            raise
        assert claim.lease is not None, "only a claim that was given up has no lease"
        return claim.lease

    async def release(self, lease: Lease) -> None:
        """Release a lease."""
        assert self._keeper is not None, "start() was not awaited"
        await self._there(self._keeper.release(lease))

    async def close(self) -> None:
        """Release everything and end the thread."""
        if self._thread.is_alive():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._there(self._end()), LEASE_JOIN_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join, LEASE_JOIN_S)
        if not self._loop.is_running():
            self._loop.close()

    async def _open(self) -> None:
        self._client = await self._connect()
        store = await KvLeases.open(self._client, timeout_s=self._ttl_s / LEASE_RENEWALS_PER_TTL)
        self._keeper = LeaseKeeper(store, holder=self._holder, ttl_s=self._ttl_s, clock=self._clock)
        self._renewing = asyncio.create_task(self._keeper.run(), name="renewals")

    async def _end(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        if self._keeper is not None:
            await self._keeper.release_all()
        if self._client is not None:
            await self._client.close()

    async def _there(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))
