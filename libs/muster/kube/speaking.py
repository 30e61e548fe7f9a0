"""Requests in the version that the server serves, where there are several: found by asking it, and followed.

Callers name kinds of `resource.k8s.io` in v1 and read and write v1 (`dialects`). Which version goes over the wire is
asked for before the first request, and again when a path is not served any more, since the API server was upgraded, or
another replica answers that was not yet. Who watches goes on from the version (of its objects) that it had reached.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from muster.kube.dialects import CANONICAL, GROUP, newest, understood, worded
from muster.kube.errors import Asked, NotFoundError, UnavailableError
from muster.kube.objects import JsonObject, is_object, objects, text
from muster.kube.resources import Resource
from muster.kube.streams import Lines
from muster.kube.transport import Request, Transport

_AnswerT = TypeVar("_AnswerT")
_PATH = f"/apis/{GROUP}"


class Speaking:
    """Sends requests for kinds of `resource.k8s.io`. moved: set whenever another version is spoken than before."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._version = ""
        self._asking = asyncio.Lock()
        self.moved = asyncio.Event()

    @property
    def version(self) -> str:
        """That is spoken; "" before anything was asked for."""
        return self._version

    async def json(self, resource: Resource, request: Request) -> JsonObject:
        """See `Transport.json`; the answer, or its items if it is a list, as v1 has them."""
        said = await self._sent(resource, request, self._transport.json)
        items = said.get("items")
        if not isinstance(items, list):
            return understood(resource, said)
        of_list = text(said, "apiVersion")
        return {**said, "items": [understood(resource, one, of_list) if is_object(one) else one for one in items]}

    @asynccontextmanager
    async def stream(self, resource: Resource, request: Request, *, silence_s: float) -> AsyncIterator[Lines]:
        """See `Transport.stream`: a watch, whose lines are as the server writes them; each says its version."""
        async with AsyncExitStack() as stack:

            async def opened(asked: Request) -> Lines:
                return await stack.enter_async_context(
                    self._transport.stream(asked, silence_s=silence_s, watching=True)
                )

            yield await self._sent(resource, request, opened)

    async def _sent(
        self, resource: Resource, request: Request, send: Callable[[Request], Awaitable[_AnswerT]]
    ) -> _AnswerT:
        version = self._version or await self._ask()
        try:
            return await send(_in(version, resource, request))
        except NotFoundError as error:
            if not error.unserved:
                raise
            missing = error
        now = await self._ask(but=version)
        if not now:
            raise missing
        if now == version:  # replicas of the server differ, while they are upgraded
            words = f"{missing}; the API server serves {GROUP}/{version} elsewhere: nothing was done"
            raise UnavailableError(words, asked=request.asked) from missing
        return await send(_in(now, resource, request))

    async def _ask(self, *, but: str = "") -> str:
        """The newest version that is served; "" if there is none. but: the one that was not served a moment ago."""
        async with self._asking:
            if self._version and self._version != but:
                return self._version  # another request found it meanwhile
            try:
                said = await self._transport.json(Request("GET", _PATH, Asked("get", _PATH)))
            except NotFoundError:
                return ""
            found = newest(text(one, "version") for one in objects(said, "versions"))
            if found and found != self._version:
                is_another, self._version = bool(self._version), found
                if is_another:
                    self.moved.set()
            return found


def _in(version: str, resource: Resource, request: Request) -> Request:
    """The request as it is sent. What nobody serves is asked for in v1, and answered by the server."""
    if version in ("", CANONICAL):
        return request
    path = request.path.replace(f"{_PATH}/{CANONICAL}/", f"{_PATH}/{version}/", 1)
    body = worded(resource, request.body, version) if is_object(request.body) else request.body
    return replace(request, path=path, body=body)
