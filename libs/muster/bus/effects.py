"""What follows a leader's folds into the world: its sink, opened once it may act and closed when the leader leaves.

The lease says who may act, and the term who may append. A log that is full takes no `term-started`; a service that
`acts_without_term` then carries out what it folded all the same, as a leader does whose appends are refused.
"""

from collections.abc import Callable, Sequence

from nats.aio.client import Client

from muster.bus.service import CoreService, Seat, Sink
from muster.core.fact import Core, Fact
from muster.core.instant import Instant


class Effects:
    """The sink of one term. wake, now: as of `Seat`. may_act: whether the lease is held."""

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
        self._seat = Seat(wake, lambda: self._is_open and may_act(), now, self._fail)

    async def open(self, core: Core, *, has_term: bool) -> None:
        """The core was folded to the head. Nothing happens a second time, nor where a term is waited for."""
        if self._sink is None or self._is_begun or not (has_term or self._acts_without_term):
            return
        assert self._connection is not None, "a service with a sink has a connection"
        self._is_begun = True
        await self._sink.open(core, self._connection, self._seat)
        self._is_open = True

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """See `Sink.after_fold`."""
        if self._sink is not None and self._is_open:
            await self._sink.after_fold(facts, last_seq=last_seq, now=now)

    def check(self) -> None:
        """Raise what failed beside the folds."""
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Nothing new starts from here on. A sink that could not be opened is closed, too."""
        self._is_open = False
        if self._sink is not None and self._is_begun:
            await self._sink.close()

    def _fail(self, error: BaseException) -> None:
        """The first error counts."""
        self._failure = self._failure or error
        self._wake()
