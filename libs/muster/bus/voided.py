"""What operators let services skip: the `voided` facts of a log, read before anything is folded."""

import logging

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.checkpoint import Voidance
from muster.bus.errors import ApiError
from muster.bus.stored import read_stored
from muster.core.fact import Fact
from muster.schemas.subjects import LogName, fact_subject

VOIDED_MAX = 10_000  # of one log; more is a mistake worth stopping at

_logger = logging.getLogger(__name__)


async def read_voided(client: Client, log: LogName) -> tuple[Voidance, ...]:
    """All `voided` of a log, by subject, from the stream's leader: few, however long the log is.

    Raises LogUnavailableError, ApiError.
    """
    subject = fact_subject(log, writer="operator", kind="log", subject_id="*", name="voided", cluster="*")
    found: list[Voidance] = []
    seq = 0
    while len(found) < VOIDED_MAX:
        message = await jsapi.next_on_subject(client, log.stream, subject, after_seq=seq)
        if message is None:
            return tuple(found)
        seq = message.seq
        fact = read_stored(log, message)
        said = Voidance.said_by(fact) if isinstance(fact, Fact) else None
        if said is None:
            _logger.warning("%s: the voided fact at %d cannot be read; it voids nothing", log.stream, seq)
            continue
        found.append(said)
    raise ApiError(0, f"{log.stream} holds more than {VOIDED_MAX} voided facts")
