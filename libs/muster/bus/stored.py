"""A single message as its stream's leader tells it, read as every fold would read it. Pure.

Whoever looks up one message must believe no more than a fold does: the broker itself can have stored something there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.bus.decode import Dead, Decoder, Skipped
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas.subjects import LogName


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it stands in a stream."""

    subject: str
    seq: int
    headers: Mapping[str, str]
    body: bytes
    time: Instant
    """When the broker stored it."""


def read_stored(log: LogName, message: StoredMessage) -> Fact | Skipped | Dead:
    """Return the fact that a stored message of `log` is, or why it is none."""
    decoder = Decoder(log)
    return decoder.decode(message.subject, message.headers, message.body, seq=message.seq, time=message.time)
