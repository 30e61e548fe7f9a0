"""The telemetry service: reads the exporters of all nodes while it leads, and publishes the readings.

A walk visits the nodes of the log once per interval, a slice at a time. Each page is its own task, so a node that hangs
delays no other; a node whose last page has not arrived is not asked again, and a node whose exporter has never answered
is asked in fewer rounds. Messages are published without waiting for the broker: while it does not answer they are
dropped and counted, never queued.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self

import aiohttp
from pydantic import ValidationError

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import EXPORTER_URL, Settings
from muster.bus.staggered import TICK_S, StaggeredRounds
from muster.core import Core, Fact, Instant
from muster.schemas.facts.node import NodeJoined
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import telemetry_subject
from muster.schemas.telemetry import ExporterState, NodeSample
from muster.telemetry.core.answers import answer_energy, answer_idle, answer_job_use, answer_top
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.exporters import Freshness, ScrapeBackoff
from muster.telemetry.core.lines import PageError
from muster.telemetry.core.meters import Holders, Reading
from muster.telemetry.core.plans import Pages
from muster.telemetry.core.samples import job_of_pod, node_sample, silent_sample
from muster.telemetry.declaration import DECLARATION
from muster.telemetry.limits import (
    CATCH_UP_S,
    CHUNK_BYTES,
    CONNECT_S_MAX,
    DNS_S,
    KEPT_S,
    PAGE_BYTES_MAX,
    SAMPLE_BYTES_MAX,
    SCRAPES_MAX,
    STOP_S_MAX,
)
from muster.telemetry.metrics import TelemetryMetrics


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of a node's exporter. text: the page, "" if `state` is not OK; error: the reason, for people."""

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
        """Return the URL of the node's page. A node without a known address is reached by its name."""
        address = (description.address if description is not None else "") or node
        return self._url.format(node=node, address=f"[{address}]" if ":" in address else address)

    async def ask(self, url: str) -> Answer:
        """Return the page. Never raises for a failure of the node."""
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


class Publisher(Protocol):
    """The operations that it needs of a NATS connection."""

    @property
    def is_connected(self) -> bool:
        """False while reconnecting."""
        ...

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        """Hand over without waiting for an acknowledgement."""
        ...


class Scrapes:
    """Implements `muster.bus.service.Sink`. url: of a node's page, see `Exporters`. clock: stamps what is read."""

    def __init__(
        self, *, cluster: str, url: str, interval_s: float, timeout_s: float, stale_s: float, clock: TimeSource
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._interval_s, self._stale_s = interval_s, stale_s
        self._exporters = Exporters(url, timeout_s=timeout_s)
        self._walk = StaggeredRounds(interval_s)
        self._freshness, self._pages, self._backoff = Freshness(stale_s), Pages(), ScrapeBackoff()
        self._metrics = TelemetryMetrics()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._core: TelemetryCore | None = None

    async def open(self, core: Core, connection: Publisher, leader: LeaderHandle) -> None:
        """Start the walk with the leader's core."""
        assert isinstance(core, TelemetryCore), "the scrapes follow the telemetry service's core"
        self._core = core
        core.forget()
        self._freshness, self._pages, self._backoff = Freshness(self._stale_s), Pages(), ScrapeBackoff()
        self._walk = StaggeredRounds(self._interval_s)
        self._task = asyncio.create_task(self._run(core, connection, leader), name="telemetry scrapes")
        self._task.add_done_callback(leader.ended)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """Do nothing: the walk reads the nodes from the core."""

    async def close(self) -> None:
        """Stop the walk and the pages under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_S_MAX)
        await settled(set(self._under_way.values()), timeout_s=STOP_S_MAX)
        self._under_way.clear()
        if self._core is not None:
            self._core.forget()
        self._metrics.hide()

    async def _run(self, core: TelemetryCore, connection: Publisher, leader: LeaderHandle) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        async with self._exporters:
            while True:
                next_s = max(next_s + TICK_S, loop.time() - CATCH_UP_S)
                await asyncio.sleep(max(0.0, next_s - loop.time()))
                rounds = self._walk.rounds
                for node in self._walk.turn(lambda: _asked(core)):
                    self._start(core, connection, leader, node)
                if self._walk.rounds != rounds:
                    for memory in (self._pages, self._freshness, self._backoff):
                        memory.keep(core.holdings.nodes)
                    self._metrics.show(core, self._clock.wall())

    def _start(self, core: TelemetryCore, connection: Publisher, leader: LeaderHandle, node: str) -> None:
        """Ask a node, unless its turn is later, its last page is still awaited, or too many pages are under way."""
        if not self._backoff.is_due(node, core.holdings.nodes.description(node), self._walk.rounds):
            return
        if node in self._under_way or len(self._under_way) >= SCRAPES_MAX:
            self._metrics.overdue.inc()
            return
        task = asyncio.create_task(self._scrape(core, connection, node), name=f"page of {node}")
        self._under_way[node] = task
        task.add_done_callback(lambda done: self._ended(node, done, leader))

    def _ended(self, node: str, task: asyncio.Task[None], leader: LeaderHandle) -> None:
        self._under_way.pop(node, None)
        leader.ended(task)

    async def _scrape(self, core: TelemetryCore, connection: Publisher, node: str) -> None:
        description, number = core.holdings.nodes.description(node), self._walk.rounds
        began_s = asyncio.get_running_loop().time()
        answer = await self._exporters.ask(self._exporters.url_of(node, description))
        if node not in core.holdings.nodes:
            return  # it left meanwhile
        self._backoff.record_attempt(node, description, number, somebody=answer.state is not ExporterState.DOWN)
        sample, message = self.reading(core, node, answer, description, at=self._clock.wall())
        self._metrics.scraped(sample.exporter, asyncio.get_running_loop().time() - began_s)
        if connection.is_connected:
            await connection.publish(telemetry_subject(self._cluster, node), message)
        else:
            self._metrics.dropped.inc()

    def reading(
        self, core: TelemetryCore, node: str, answer: Answer, description: NodeJoined | None, *, at: Instant
    ) -> tuple[NodeSample, bytes]:
        """Return the reading of an answer, and its message. An unreadable, unmeasurable or unsendable page becomes the
        state nonsense, so that it affects no other node."""
        if answer.state is ExporterState.OK:
            holders = core.holdings.holders(node)
            try:
                sample = self._sample(core, node, answer.text, description, holders=holders, at=at)
                message = encoded(sample)
                if len(message) <= SAMPLE_BYTES_MAX:
                    core.observe(Reading(sample, holders), at)
                    return sample, message
                error = f"it says more than {SAMPLE_BYTES_MAX} bytes of GPUs"
            except PageError as unread:
                error = str(unread)
            except (ValidationError, ArithmeticError) as unheld:
                error = f"it says what no sample holds: {_words(unheld)}"
            answer = Answer(ExporterState.NONSENSE, error=error)
        self._freshness.forget(node)
        sample = silent_sample(
            node, answer.state, answer.error, at=at, description=description, interval_s=self._interval_s
        )
        core.observe(Reading(sample), at)
        return sample, encoded(sample)

    def _sample(
        self,
        core: TelemetryCore,
        node: str,
        text: str,
        description: NodeJoined | None,
        *,
        holders: Holders,
        at: Instant,
    ) -> NodeSample:
        page = self._pages.read(node, text)
        live, origins = core.holdings.holding, core.holdings.origins
        return node_sample(
            node,
            page,
            at=at,
            description=description,
            holders=holders,
            job_of_pod=lambda owner: job_of_pod(owner, live, origins),
            is_live=live.__contains__,
            state=ExporterState.STALE if self._freshness.is_stale(node, page, at) else ExporterState.OK,
            interval_s=self._interval_s,
        )


def _words(error: ValidationError | ArithmeticError) -> str:
    """Return the field and its problem."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def encoded(sample: NodeSample) -> bytes:
    """Encode the message without fields at their defaults, which halves it."""
    return sample.model_dump_json(exclude_defaults=True).encode()


def _asked(core: TelemetryCore) -> tuple[str, ...]:
    """Return the nodes with GPUs that are not lost."""
    return tuple(name for name, node in core.holdings.nodes.items() if not node.is_lost and node.description.gpu_uuids)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the telemetry service of one cluster; without exporters it only folds, for its part of checkpoints."""
    config, url = config_of(settings), url_of(settings)
    section = settings.telemetry
    scrapes = partial(
        Scrapes,
        cluster=settings.cluster,
        url=url,
        interval_s=section.interval_s,
        timeout_s=section.timeout_s,
        stale_s=section.stale_s,
        clock=SystemTime(),
    )
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: TelemetryCore(config),
            queries={"job-use": answer_job_use, "top": answer_top, "idle": answer_idle, "energy": answer_energy},
            sink=scrapes if url else None,
        ),
    )


def config_of(settings: Settings) -> TelemetryConfig:
    """Return the core's part of the settings."""
    section = settings.telemetry
    return TelemetryConfig(
        interval_s=section.interval_s,
        idle_below_pct=section.idle_below_pct,
        idle_after_s=section.idle_after_s,
        report_s=section.report_s,
    )


def url_of(settings: Settings) -> str:
    """Return the URL template of a node's page, "" without telemetry; a stack with its own exporters sets it."""
    section = settings.telemetry
    if not section.enabled:
        return ""
    return section.url or (EXPORTER_URL if settings.kubernetes is not None else "")
