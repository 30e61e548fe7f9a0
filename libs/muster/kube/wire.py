"""One connection to an API server, over which requests go one after the other: HTTP/1.1 without what it does not need.

A general client spends 90 us of processor time on its own objects for each request, which is more than all else that
a binding costs Muster; the parsing is httptools', as in the gateway's server. Watches, pages that are streamed and
proxies are left to aiohttp.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol, cast

from httptools import HttpParserError, HttpResponseParser

from muster.kube import bounds

_CONTINUES = 200
_RETRY_AFTER = b"retry-after"


class WireError(OSError):
    """The connection broke off, or the answer is not HTTP, or is too large."""


class Flow(Protocol):
    """What is asked of a transport."""

    def write(self, data: bytes) -> None:
        """Send it."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """status: of HTTP. retry_after: that header, "" without."""

    status: int
    body: bytes
    retry_after: str = ""


class Wire(asyncio.Protocol):
    """One connection. generation: of the credentials that it was opened with. is_open: whether it may be used again."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.is_open = False
        self.idle_since_s = 0.0
        self._transport: Flow | None = None
        self._parser: HttpResponseParser | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._bytes = 0
        self._retry_after = ""

    async def exchange(self, data: bytes) -> Answer:
        """Send a whole request and wait for its whole answer. Raises WireError; the wire is closed then."""
        if not self.is_open or self._transport is None:
            raise WireError("the server closed the connection")
        self._parser = HttpResponseParser(self)
        self._parts, self._bytes, self._retry_after = [], 0, ""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.close()  # the answer, when it comes, is nobody's
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Close it, whatever is under way."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("Flow", transport)  # uvloop's over TLS is none of asyncio's classes
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.is_open = False
        self._fail(f"the connection broke off: {exc}" if exc else "the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._answer is None or self._answer.done() or self._parser is None:
            self.close()  # nobody asked: whatever follows would be taken for the answer to something else
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"the answer is no HTTP: {error}")
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `HttpResponseParser`."""
        if name.lower() == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """See `HttpResponseParser`."""
        self._bytes += len(body)
        if self._bytes > bounds.BODY_BYTES_MAX:
            self._fail(f"the answer is larger than {bounds.BODY_BYTES_MAX} bytes; ask for pages")
            self.close()
            return
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """See `HttpResponseParser`."""
        parser, answer = self._parser, self._answer
        assert parser is not None, "a parser calls"
        status = parser.get_status_code()
        if status < _CONTINUES or answer is None or answer.done():
            return
        if not parser.should_keep_alive():
            self.close()
        answer.set_result(Answer(status, b"".join(self._parts), self._retry_after))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(WireError(why))
