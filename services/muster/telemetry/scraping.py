"""One node's page over HTTP, and what it means if there is none."""

import asyncio
from dataclasses import dataclass
from typing import Self

import aiohttp

from muster.schemas.facts.node import NodeJoined
from muster.schemas.telemetry import ExporterState
from muster.telemetry.limits import CHUNK_BYTES, CONNECT_S_MAX, DNS_S, KEPT_S, PAGE_BYTES_MAX, SCRAPES_MAX


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node's exporter answered. text: the page, "" if `state` is not OK; error: why not, in words."""

    state: ExporterState
    text: str = ""
    error: str = ""


class Exporters:
    """Asks the exporters of all nodes. url: with {node} and {address} to fill in. As a context manager.

    Connections are kept for a moment alone: 1,750 open ones would be more than a process may have. That is enough where
    several nodes' pages come from one place.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=SCRAPES_MAX, keepalive_timeout=KEPT_S, ttl_dns_cache=DNS_S),
            timeout=aiohttp.ClientTimeout(
                total=self._timeout_s, sock_connect=min(CONNECT_S_MAX, self._timeout_s), ceil_threshold=3_600
            ),
            headers={"Accept-Encoding": "identity", "Accept": "text/plain;version=0.0.4"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def url_of(self, node: str, description: NodeJoined | None) -> str:
        """Where the node's page is. An address that is not known is taken to be the node's name."""
        address = (description.address if description is not None else "") or node
        return self._url.format(node=node, address=f"[{address}]" if ":" in address else address)

    async def ask(self, url: str) -> Answer:
        """The page. Never raises for what a node does."""
        assert self._session is not None, "entered first"
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    return Answer(ExporterState.NONSENSE, error=f"{url} answers {response.status} {response.reason}")
                return await self._page(url, response)
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
            return Answer(ExporterState.DOWN, error=f"{url} cannot be reached: {error}")
        except TimeoutError:
            return Answer(ExporterState.HUNG, error=f"{url} does not answer within {self._timeout_s:g} s")
        except aiohttp.ClientPayloadError as error:
            return Answer(ExporterState.NONSENSE, error=f"{url} breaks off within its page: {error}")
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, OSError) as error:
            return Answer(ExporterState.DOWN, error=f"{url} hangs up: {error}")
        except (aiohttp.ClientError, ValueError) as error:
            return Answer(ExporterState.NONSENSE, error=f"{url} is no exporter: {error}")

    async def _page(self, url: str, response: aiohttp.ClientResponse) -> Answer:
        body = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            body += chunk
            if len(body) > PAGE_BYTES_MAX:
                return Answer(ExporterState.NONSENSE, error=f"{url} sends more than {PAGE_BYTES_MAX} bytes")
        try:
            return Answer(ExporterState.OK, body.decode())
        except UnicodeDecodeError as error:
            return Answer(ExporterState.NONSENSE, error=f"{url} sends what is no text: {error}")


async def settled(tasks: set[asyncio.Task[None]], *, timeout_s: float) -> None:
    """End what is on its way."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
