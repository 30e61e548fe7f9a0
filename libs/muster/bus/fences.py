"""The newest fence of a service: believed if that service wrote it, and replaced by an operator if it did not.

The broker guards appends by the sequence of whatever stands last on the fence's subject. A message there that is no
fence would let nobody know which term has begun, so it is refused by name and not guessed around.
"""

from dataclasses import dataclass

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.batches import Writer
from muster.bus.decode import Dead
from muster.bus.errors import FenceBrokenError
from muster.bus.requests import Single, publish
from muster.bus.stored import read_stored
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas.facts.control import Fence, TermStarted
from muster.schemas.ids import request_fact_id
from muster.schemas.subjects import LogName, fact_subject, fence_subject

REPAIR_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class NewestFence:
    """A fence as it stands in its log."""

    seq: int
    fence: Fence
    time: Instant


async def newest_fence(client: Client, log: LogName, service: str) -> NewestFence | None:
    """Return the service's newest fence, from the stream's leader; None if there is none.

    Raises FenceBrokenError, LogUnavailableError, ApiError.
    """
    subject = fence_subject(log, service)
    stored = await jsapi.last_on_subject(client, log.stream, subject)
    if stored is None:
        return None
    found = read_stored(log, stored)
    if isinstance(found, Fact) and isinstance(found.payload, Fence):
        return NewestFence(stored.seq, found.payload, stored.time)
    why = found.error if isinstance(found, Dead) else "it is another fact"
    raise FenceBrokenError(log.stream, subject, service, seq=stored.seq, why=why)


async def repair_fence(reading: Client, writing: Client, log: LogName, service: str) -> Single | None:
    """Put a valid fence after a message that is none; None if the newest fence is in order.

    Only if nothing was stored on the fence's subject since: `EXISTS` means look again. The fence has the term of the
    newest `term-started` that the log still holds, 0 if it holds none: a leader's own term is larger.
    Raises LogUnavailableError, ApiError.
    """
    try:
        await newest_fence(reading, log, service)
    except FenceBrokenError as error:
        broken_seq = error.seq
    else:
        return None
    record = Fence(term=await _newest_term(reading, log, service), folded_seq=broken_seq)
    message = Writer(log, service).fence(record, request_fact_id("repair-fence", log.stream, service, str(broken_seq)))
    return await publish(writing, message, expect_last=broken_seq, timeout_s=REPAIR_TIMEOUT_S)


async def _newest_term(client: Client, log: LogName, service: str) -> int:
    subject = fact_subject(log, writer=service, kind="log", subject_id=service, name="term-started")
    stored = await jsapi.last_on_subject(client, log.stream, subject)
    found = None if stored is None else read_stored(log, stored)
    return found.payload.term if isinstance(found, Fact) and isinstance(found.payload, TermStarted) else 0
