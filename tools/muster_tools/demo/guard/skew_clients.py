"""Clients behind a load balancer: ours over HTTP/1.1, and kubectl's over HTTP/2."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeError
from muster_tools.demo.guard.limits import READ_BYTES, SKEW_LIST_S, SKEW_REQUESTS_PER_S, STOP_S

_LIST, _SMALL = "/api/v1/secrets", "/version"
_SERVES = "Starting to serve on "


class Client:
    """Sends small requests all the time, and a LIST now and then, on the one connection that it has."""

    async def send(self, path: str) -> None:
        """One request, answered and read. A failed one is no matter: the connection is made anew."""
        raise NotImplementedError

    async def run(self, seconds: float, *, first_list_s: float) -> None:
        """For so long, with the first LIST after `first_list_s`."""
        loop = asyncio.get_running_loop()
        end_s, next_list_s = loop.time() + seconds, loop.time() + first_list_s
        while (now_s := loop.time()) < end_s:
            await self.send(_LIST if now_s >= next_list_s else _SMALL)
            if now_s >= next_list_s:
                next_list_s = now_s + SKEW_LIST_S
            await asyncio.sleep(1 / SKEW_REQUESTS_PER_S)


class Ours(Client):
    """A client of Muster's own kind."""

    def __init__(self, connection: KubeConnection) -> None:
        self._connection = connection

    async def send(self, path: str) -> None:
        """See `Client.send`."""
        try:
            async with self._connection.lines(path) as lines:
                async for _ in lines.batches():
                    pass
        except KubeError:
            return


class Kubectls(Client):
    """`kubectl proxy`: what it is asked over HTTP/1.1 it asks the API server over one HTTP/2 connection."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(self, path: str) -> None:
        """See `Client.send`."""
        try:
            async with self._session.get(path) as answer:
                async for _ in answer.content.iter_chunked(READ_BYTES):
                    pass
        except (aiohttp.ClientError, TimeoutError):
            return


@asynccontextmanager
async def ours(kubeconfig: Path, count: int, *, age_s: float) -> AsyncIterator[list[Client]]:
    """Clients that renew their connections after so long."""
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
    """Clients of client-go's kind. Raises OSError."""
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
