"""Skew: after a restart every connection stays at the other API server, and so does the memory."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from typing_extensions import override

from muster.guard.core.checks import MEMORY_SKEW, skew_of
from muster.guard.core.look import Look
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeError
from muster_tools.demo.guard.limits import (
    GOAWAY_CHANCE,
    NEVER_S,
    READ_BYTES,
    RENEWAL_S,
    SKEW_CLIENTS,
    SKEW_LIST_S,
    SKEW_REQUESTS_PER_S,
    SKEW_S,
    SKEW_SECRETS,
    SKEW_SPREAD_S,
    STOP_S,
)
from muster_tools.demo.guard.result import Measure, Story
from muster_tools.demo.guard.stage import READER, USERS, fill, let_read, observing, said, stage
from muster_tools.local_kubernetes.access import write_kubeconfig
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane
from muster_tools.local_kubernetes.ports import LOOPBACK
from muster_tools.local_kubernetes.programs import KUBECTL

_READ_BYTES = 64 * 1024


class Balancer:
    """A load balancer: each new connection goes to the next API server, or the one after it if that is down.

    open: current connections by API server.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self._targets = [(urlsplit(url).hostname or "", urlsplit(url).port or 443) for url in servers]
        self._next = 0
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self.open: Counter[int] = Counter()

    @property
    def url(self) -> str:
        """Return the address for clients."""
        assert self._server is not None, "the balancer has been entered"
        return f"https://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for pipe in list(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            return  # by __aexit__; asyncio logs a cancelled task of a stream server as an error
        finally:
            self._pipes.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = self._next = (self._next + 1) % len(self._targets)
        for step in range(len(self._targets)):
            index = (first + step) % len(self._targets)
            try:
                to_server = await asyncio.open_connection(*self._targets[index])
            except OSError:
                continue
            self.open[index] += 1
            try:
                await _joined((reader, writer), to_server)
            finally:
                self.open[index] -= 1
            return


_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _joined(client: _Ends, server: _Ends) -> None:
    """Wait until one side closes, then close the other."""
    pipes = [
        asyncio.create_task(_pipe(client[0], server[1])),
        asyncio.create_task(_pipe(server[0], client[1])),
    ]
    try:
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        server[1].close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_READ_BYTES):
            writer.write(chunk)
            await writer.drain()


_LIST, _SMALL = "/api/v1/secrets", "/version"
_SERVES = "Starting to serve on "


class Client:
    """Sends small requests continuously, and a LIST at times, on a single connection."""

    async def send(self, path: str) -> None:
        """Send one request and read the response. Failures are ignored: the connection is reopened."""
        raise NotImplementedError

    async def run(self, seconds: float, *, first_list_s: float) -> None:
        """Send requests for this long, with the first LIST after `first_list_s`."""
        loop = asyncio.get_running_loop()
        end_s, next_list_s = loop.time() + seconds, loop.time() + first_list_s
        while (now_s := loop.time()) < end_s:
            await self.send(_LIST if now_s >= next_list_s else _SMALL)
            if now_s >= next_list_s:
                next_list_s = now_s + SKEW_LIST_S
            await asyncio.sleep(1 / SKEW_REQUESTS_PER_S)


class Ours(Client):
    """A client that uses Muster's Kubernetes library."""

    def __init__(self, connection: KubeConnection) -> None:
        self._connection = connection

    @override
    async def send(self, path: str) -> None:
        try:
            async with self._connection.lines(path) as lines:
                async for _ in lines.batches():
                    pass
        except KubeError:
            return


class Kubectls(Client):
    """A client over `kubectl proxy`, which forwards HTTP/1.1 requests over one HTTP/2 connection."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @override
    async def send(self, path: str) -> None:
        try:
            async with self._session.get(path) as answer:
                async for _ in answer.content.iter_chunked(READ_BYTES):
                    pass
        except (aiohttp.ClientError, TimeoutError):
            return


@asynccontextmanager
async def ours(kubeconfig: Path, count: int, *, age_s: float) -> AsyncIterator[list[Client]]:
    """Run clients that renew their connections at this age."""
    async with AsyncExitStack() as stack:
        found: list[Client] = []
        for seed in range(count):
            connection = await KubeConnection.open(
                kubeconfig=kubeconfig, user_agent="muster-demo/1", seed=seed, connection_age_s_max=age_s
            )
            stack.push_async_callback(connection.close)
            found.append(Ours(connection))
        yield found


@asynccontextmanager
async def kubectls(kubectl: Path, kubeconfig: Path, count: int) -> AsyncIterator[list[Client]]:
    """Run clients that use client-go. Raises OSError."""
    async with AsyncExitStack() as stack:
        found: list[Client] = []
        for _ in range(count):
            address = await stack.enter_async_context(_proxy(kubectl, kubeconfig))
            found.append(Kubectls(await stack.enter_async_context(aiohttp.ClientSession(f"http://{address}"))))
        yield found


@asynccontextmanager
async def _proxy(kubectl: Path, kubeconfig: Path) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        str(kubectl), "--kubeconfig", str(kubeconfig), "proxy", "--port=0",
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(STOP_S):
            said = (await process.stdout.readline()).decode().strip()
        if not said.startswith(_SERVES):
            raise OSError(f"kubectl proxy does not serve: {said}")
        yield said.removeprefix(_SERVES)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


_RESTARTED = "kube-apiserver-1"
_STAYED_INDEX, _RESTARTED_INDEX = 0, 1
_SECRETS, _SECRET_BYTES = SKEW_SECRETS


@dataclass(frozen=True, slots=True)
class _Run:
    """Percentage of connections and of requests at the restarted API server."""

    look: Look
    http1: float
    http2: float
    requests: float


async def skew(*, emulated_version: str) -> Story:
    """Compare permanent connections with goaway-chance at the API servers and renewal in Muster's clients."""
    before = await _run(emulated_version, flags=(), age_s=NEVER_S)
    half = await _run(emulated_version, flags=(f"--goaway-chance={GOAWAY_CHANCE}",), age_s=NEVER_S)
    after = await _run(emulated_version, flags=(f"--goaway-chance={GOAWAY_CHANCE}",), age_s=RENEWAL_S)
    return Story(
        name="skew",
        title=f"Skew: {2 * SKEW_CLIENTS} clients behind a load balancer, one of two API servers restarted",
        before="connections stay where they are",
        after=f"--goaway-chance={GOAWAY_CHANCE}, and Muster's clients renew connections after {RENEWAL_S:g} s",
        measures=(
            Measure("memory_ratio", "largest memory over smallest", skew_of(before.look), skew_of(after.look)),
            Measure("stayed_mib", "memory of the server not restarted, MiB", _mib(before, 0), _mib(after, 0)),
            Measure("restarted_mib", "memory of the restarted server, MiB", _mib(before, 1), _mib(after, 1)),
            Measure("requests_percent", "requests at the restarted server, %", before.requests, after.requests),
            Measure("http2_percent", "HTTP/2 connections there (kubectl), %", before.http2, after.http2),
            Measure("http1_percent", "HTTP/1.1 connections there (Muster), %", before.http1, after.http1),
            Measure("http1_percent_goaway", "the same with goaway-chance alone, %", before.http1, half.http1),
        ),
        advice=said(before.look, MEMORY_SKEW),
        advice_after=said(after.look, MEMORY_SKEW),
        conclusion="goaway-chance moves HTTP/2 clients alone; HTTP/1.1 clients, as Python's, have to renew connections",
    )


async def _run(emulated_version: str, *, flags: tuple[str, ...], age_s: float) -> _Run:
    options = PlaneOptions(
        kwok=False, apiservers=2, emulated_version=emulated_version, users=USERS, apiserver_flags=flags
    )
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(stage(options))
        await let_read(plane)
        await fill(plane, secrets=_SECRETS, size_bytes=_SECRET_BYTES)
        await plane.stop(_RESTARTED)
        first, second = [await stack.enter_async_context(Balancer(plane.servers)) for _ in range(2)]
        old = await stack.enter_async_context(ours(_config(plane, first, "ours"), SKEW_CLIENTS, age_s=age_s))
        new = await stack.enter_async_context(
            kubectls(plane.program(KUBECTL), _config(plane, second, "kubectls"), SKEW_CLIENTS)
        )
        clients = [*old, *new]
        await asyncio.gather(*(client.send("/version") for client in clients))
        await plane.start(_RESTARTED)
        observer = await stack.enter_async_context(observing(plane))
        before = await observer.look()
        await _all_run(clients)
        look = await observer.look()
        return _Run(look, _percent(first), _percent(second), _requests_percent(before, look))


def _config(plane: ControlPlane, balancer: Balancer, name: str) -> Path:
    return write_kubeconfig(
        plane.directory / f"{name}.kubeconfig",
        server=balancer.url,
        ca=plane.ca,
        user=READER,
        token=plane.token(READER),
    )


async def _all_run(clients: Sequence[Client]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, client in enumerate(clients):
            first_s = SKEW_SPREAD_S + SKEW_LIST_S * number / len(clients)
            tasks.create_task(client.run(SKEW_S, first_list_s=first_s))


def _percent(balancer: Balancer) -> float:
    every = sum(balancer.open.values())
    return balancer.open[_RESTARTED_INDEX] / every * 100 if every else 0.0


def _requests_percent(before: Look, after: Look) -> float:
    """Return the restarted server's share of the requests answered between two observations."""
    grown = [
        (later.page.requests if later.page else 0.0) - (earlier.page.requests if earlier.page else 0.0)
        for earlier, later in zip(before.replicas, after.replicas, strict=True)
    ]
    return grown[_RESTARTED_INDEX] / sum(grown) * 100 if sum(grown) else 0.0


def _mib(run: _Run, index: int) -> float:
    return run.look.replicas[index].memory_mib
