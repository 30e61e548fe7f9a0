"""Find and scrape every API server of a cluster."""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from muster.core import Instant
from muster.guard.core.clients import Request, lists_of
from muster.guard.core.look import Replica
from muster.guard.core.pages import MIB, MINUTE_S, Page, PageReader, has_restarted, per_minute, quantile_s
from muster.guard.limits import (
    DUMP_ROWS_MAX,
    DUMP_S_MAX,
    PROBE_FRAMES_MAX,
    PROBE_S_MAX,
    REPLICAS_MAX,
    SCRAPE_S_MAX,
    SHARED_AGE_S,
    SHARED_S,
)
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeConfigError, KubeError
from muster.kube.objects import JsonObject, integer, objects, sequence
from muster.kube.resources import ENDPOINT_SLICES
from muster.kube.shapes import Selection
from muster.schemas.apiserver import POINTS_MAX

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_EMPTY_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HEADER_BYTES = 9
_SETTINGS, _ACK = 0x4, 0x1
_MAX_CONCURRENT_STREAMS = 0x3
_SETTING_BYTES = 6
_FRAME_BYTES_MAX = 16_384
_UNLIMITED = 2**31 - 1


async def streams_max(url: str) -> int:
    """Return SETTINGS_MAX_CONCURRENT_STREAMS of the server at `url`; 0 without HTTP/2 or without an answer in time.

    No request and no credentials are sent, so the certificate is not verified.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname is None:
        return 0
    try:
        async with asyncio.timeout(PROBE_S_MAX):
            return await _greeting(parts.hostname, parts.port or 443)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return 0


async def _greeting(host: str, port: int) -> int:
    reader, writer = await asyncio.open_connection(host, port, ssl=_context(), server_hostname=host)
    try:
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        if chosen != "h2":
            return 0
        writer.write(_PREFACE + _EMPTY_SETTINGS)
        await writer.drain()
        for _ in range(PROBE_FRAMES_MAX):
            header = await reader.readexactly(_HEADER_BYTES)
            length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
            if length > _FRAME_BYTES_MAX:
                return 0
            body = await reader.readexactly(length)
            if kind == _SETTINGS and not flags & _ACK:
                return streams_of(body)
        return 0
    finally:
        writer.close()


def streams_of(settings: bytes) -> int:
    """Return the limit in the body of a SETTINGS frame; no limit without that setting."""
    for start in range(0, len(settings) - _SETTING_BYTES + 1, _SETTING_BYTES):
        name, value = struct.unpack_from(">HI", settings, start)
        if name == _MAX_CONCURRENT_STREAMS:
            return int(value)
    return _UNLIMITED


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


DUMP = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1"


@dataclass
class _Process:
    """One API server process; `before` is the time and content of its newest page."""

    name: str
    memory: deque[tuple[Instant, float]] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    before: tuple[float, Page] | None = None
    streams: tuple[float, int] | None = None
    newest: Replica | None = None


class ReplicaScraper:
    """Scrapes one API server through `connection`, which it closes.

    With `shared`, several API servers are behind one address and each new connection may reach another one. They are
    told apart by start time and shown as last seen for SHARED_S; the connection must be short-lived.
    """

    def __init__(self, name: str, connection: KubeConnection, *, shared: bool = False) -> None:
        self.name = name
        self._connection = connection
        self._shared = shared
        self._processes: dict[int, _Process] = {}
        self._numbered = 0

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def scrape(self, now: Instant) -> tuple[Replica, ...]:
        """Read its metrics and return the replica, with rates since the page before; all recently seen ones if shared.

        Failures are returned in `error`. `now` stamps the memory samples.
        """
        now_s = asyncio.get_running_loop().time()
        try:
            page = await self._page()
        except (KubeError, KubeConfigError) as error:
            return (self._failed(str(error)),)
        process = self._process_of(page)
        process.memory.append((now, page.rss_bytes / MIB))
        before, process.before = process.before, (now_s, page)
        found = Replica(
            process.name, page=page, memory=tuple(process.memory), streams_max=await self._streams_of(process, page)
        )
        process.newest = found if before is None else _with_rates(found, before[1], page, seconds=now_s - before[0])
        self._forget(now_s)
        return tuple(one.newest for one in self._processes.values() if one.newest is not None)

    def _process_of(self, page: Page) -> _Process:
        """Return the process of a page. A private address has one, however often it restarts."""
        key = round(page.started_at_s) if self._shared else 0
        if key not in self._processes:
            self._numbered += 1
            name = f"{self.name} #{self._numbered}" if self._shared else self.name
            self._processes[key] = _Process(name)
        return self._processes[key]

    def _forget(self, now_s: float) -> None:
        """Forget processes that were not seen for SHARED_S, and the oldest beyond REPLICAS_MAX."""
        met_s = {key: one.before[0] for key, one in self._processes.items() if one.before is not None}
        newest = sorted(met_s, key=lambda key: -met_s[key])[:REPLICAS_MAX]
        kept = {key for key in newest if now_s - met_s[key] <= SHARED_S}
        self._processes = {key: one for key, one in self._processes.items() if key in kept}

    def _failed(self, error: str) -> Replica:
        known = next(iter(self._processes.values()), None)
        return Replica(self.name, error=error, memory=tuple(known.memory) if known and not self._shared else ())

    async def requests(self) -> Sequence[Request]:
        """Return the LISTs in flight. Raises KubeError, KubeConfigError."""
        found: list[Request] = []
        async with self._connection.lines(DUMP, timeout_s=DUMP_S_MAX) as lines:
            async for batch in lines.batches():
                found.extend(lists_of(line.decode(errors="replace") for line in batch))
                if len(found) >= DUMP_ROWS_MAX:
                    break
        return found

    async def _page(self) -> Page:
        reader = PageReader()
        async with self._connection.lines("/metrics", timeout_s=SCRAPE_S_MAX) as lines:
            async for batch in lines.batches():
                reader.feed(batch)
        return reader.page()

    async def _streams_of(self, process: _Process, page: Page) -> int:
        """Probe once for each process: the limit is a flag."""
        if process.streams is None or process.streams[0] != page.started_at_s:
            process.streams = (page.started_at_s, await streams_max(self._connection.url))
        return process.streams[1]


def _with_rates(found: Replica, before: Page, page: Page, *, seconds: float) -> Replica:
    restarted = has_restarted(before, page)
    whole = {"requests": page.requests, "cpu": page.cpu_s}
    singles = per_minute(
        {"requests": before.requests, "cpu": before.cpu_s}, whole, seconds=seconds, restarted=restarted
    )
    return replace(
        found,
        per_minute=per_minute(before.lists, page.lists, seconds=seconds, restarted=restarted),
        rejected_per_minute=per_minute(before.rejected, page.rejected, seconds=seconds, restarted=restarted),
        waits_s_p99=quantile_s(per_minute(before.waits, page.waits, seconds=seconds, restarted=restarted)),
        requests_per_s=singles.get("requests", 0.0) / MINUTE_S,
        cpu_cores=singles.get("cpu", 0.0) / MINUTE_S,
    )


SERVER_NAME = "kubernetes.default.svc"
"""Name in every API server's certificate, whatever its address."""
_ENDPOINTS = Selection(namespace="default", labels="kubernetes.io/service-name=kubernetes")


@dataclass(frozen=True, slots=True)
class Place:
    """How to reach a cluster; see `KubernetesSettings` and `GuardSettings`. An `audit_port` of 0 means no receiver."""

    kubeconfig: Path | None
    context: str = ""
    api_servers: tuple[str, ...] = ()
    connection_age_s: float = 600.0
    audit_host: str = ""
    audit_port: int = 0
    audit_token: Path | None = None
    audit_tls: tuple[Path, Path] | None = None
    """Certificate and key; None for plain HTTP."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Scrapers of all API servers, which the caller closes."""

    scrapers: tuple[ReplicaScraper, ...]
    lacking: str = ""
    """What cannot be observed, and why; "" for nothing."""


async def find_replicas(connection: KubeConnection, place: Place, *, user_agent: str) -> Replicas:
    """Return the API servers of the settings, else those of the `kubernetes` service if all can be reached.

    Otherwise return the ones behind the kubeconfig's address. Raises KubeConfigError."""
    if place.api_servers:
        urls = place.api_servers[:REPLICAS_MAX]
        return Replicas(tuple(ReplicaScraper(_name(url), connection.at_replica(url)) for url in urls))
    urls, why = await _listed(connection)
    found = []
    for url in urls:
        at_replica = connection.at_replica(url, server_name=SERVER_NAME)
        try:
            await at_replica.get_path("/version")
        except (KubeError, KubeConfigError) as error:
            why = str(error)
            await at_replica.close()
        else:
            found.append(ReplicaScraper(_name(url), at_replica))
    if found and len(found) == len(urls):
        return Replicas(tuple(found))
    for scraper in found:
        await scraper.close()
    lacking = (
        f"API servers are observed through one address, {connection.url}, and told apart by start time, because "
        f"they could not be reached one by one: {why}; name them in kubernetes.api_servers"
    )
    return Replicas((ReplicaScraper(_name(connection.url), await _young(place, user_agent), shared=True),), lacking)


async def _young(place: Place, user_agent: str) -> KubeConnection:
    return await KubeConnection.open(
        kubeconfig=place.kubeconfig, context=place.context, user_agent=user_agent, connection_age_s_max=SHARED_AGE_S
    )


async def _listed(connection: KubeConnection) -> tuple[tuple[str, ...], str]:
    try:
        page = await connection.list_page(ENDPOINT_SLICES, select=_ENDPOINTS)
    except KubeError as error:
        return (), str(error)
    urls = tuple(dict.fromkeys(url for item in page.items for url in _urls(item)))
    return urls[:REPLICAS_MAX], "" if urls else "service default/kubernetes lists no endpoints"


def _urls(item: JsonObject) -> list[str]:
    ports = [integer(port, "port") for port in objects(item, "ports")]
    hosts = [str(host) for endpoint in objects(item, "endpoints") for host in sequence(endpoint, "addresses")]
    return [f"https://{f'[{host}]' if ':' in host else host}:{port}" for host in hosts for port in ports[:1]]


def _name(url: str) -> str:
    return urlsplit(url).netloc or url
