"""A single message as its stream's leader tells it, read as every fold would read it. Pure.

Whoever looks up one message must believe no more than a fold does: the broker itself can have stored something there.
"""

from muster.bus.decode import Dead, Decoder, Skipped
from muster.bus.jsapi import StoredMessage
from muster.core.fact import Fact
from muster.schemas.subjects import LogName


def read_stored(log: LogName, message: StoredMessage) -> Fact | Skipped | Dead:
    """Return the fact that a stored message of `log` is, or why it is none."""
    decoder = Decoder(log)
    return decoder.decode(message.subject, message.headers, message.body, seq=message.seq, time=message.instant)
