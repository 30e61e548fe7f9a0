"""Several sinks behind one fold, each with its own pace and its own failures."""

from collections.abc import Sequence

from nats.aio.client import Client

from muster.bus.service import LeaderHandle, Sink
from muster.core.fact import Core, Fact
from muster.core.instant import Instant


class Sinks:
    """Implements `muster.bus.service.Sink`: all of them, opened in order and closed in reverse."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    async def open(self, core: Core, connection: Client, seat: LeaderHandle) -> None:
        """See `Sink`. Raises what one raises; whoever opens closes."""
        for sink in self._sinks:
            await sink.open(core, connection, seat)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """See `Sink`. Raises what one raises."""
        for sink in self._sinks:
            await sink.after_fold(facts, last_seq=last_seq, now=now)

    async def close(self) -> None:
        """See `Sink`. Closes every one, then raises what the first that failed raised."""
        failed: BaseException | None = None
        for sink in reversed(self._sinks):
            try:
                await sink.close()
            except Exception as error:  # noqa: BLE001 - the others are closed first
                failed = failed or error
        if failed is not None:
            raise failed
