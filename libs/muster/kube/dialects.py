"""`resource.k8s.io` in each version that API servers serve, read and written as if all of them were v1.

Kubernetes 1.32 serves v1beta1, 1.33 v1beta2 beside it, 1.34 v1. v1beta2 differs from v1 in its name alone. v1beta1 puts
what a device is into `basic`, and what a request asks for beside its name, where v1 says `exactly`. Everything else,
the allocation above all, is alike. Source: api/resource/{v1beta1,v1beta2,v1}/types.go of Kubernetes 1.32 and 1.34.

What is not known here comes back as it was read: a claim that is replaced keeps fields that Muster never heard of.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from muster.kube.errors import Asked, NotFoundError, UnavailableError
from muster.kube.objects import JsonObject, is_object, objects, text
from muster.kube.resources import Resource
from muster.kube.transport import Lines, Request, Transport

GROUP = "resource.k8s.io"
CANONICAL = "v1"
"""What all others read and write."""
VERSIONS = (CANONICAL, "v1beta2", "v1beta1")
"""Newest first."""
_FLAT = f"{GROUP}/v1beta1"
_LISTS = {
    "resourceslices": ("spec", "devices"),
    "resourceclaims": ("spec", "devices", "requests"),
    "resourceclaimtemplates": ("spec", "spec", "devices", "requests"),
}
"""Where the list is whose entries differ, by plural."""
_PATH = f"/apis/{GROUP}"


_NAME, _BASIC, _EXACTLY, _ALTERNATIVES = "name", "basic", "exactly", "firstAvailable"


def is_translated(resource: Resource) -> bool:
    """Whether it is of the group that is spoken in several versions."""
    return resource.group == GROUP


def newest(versions: Iterable[str]) -> str:
    """Of those that a server has, the newest that is spoken here; "" if there is none."""
    there = frozenset(versions)
    return next((version for version in VERSIONS if version in there), "")


def is_served(group_version: str, served: Iterable[str]) -> bool:
    """Whether a feature's group is there: of `resource.k8s.io` any version that is spoken. served: as /apis has it."""
    there = frozenset(served)
    if group_version == GROUP:
        return any(f"{GROUP}/{version}" in there for version in VERSIONS)
    return group_version in there


def understood(resource: Resource, obj: JsonObject, api_version: str = "") -> JsonObject:
    """An object as v1 has it. api_version: of the list that it came in, whose objects do not say theirs.

    The object itself stays as it is. What is no object of the group, such as a Status, is answered as it is.
    """
    if resource.group != GROUP:
        return obj
    said = api_version or obj.get("apiVersion")
    if said == resource.api_version or not isinstance(said, str) or not said.startswith(f"{GROUP}/"):
        return obj
    if said == _FLAT:
        obj = _with(obj, _LISTS.get(resource.plural, ()), _gathered if _is_slice(resource) else _asked_exactly)
    return {**obj, "apiVersion": resource.api_version} if "apiVersion" in obj else obj


def worded(resource: Resource, body: JsonObject, version: str) -> JsonObject:
    """An object of v1, or a merge patch of one, as the version has it."""
    if version == CANONICAL:
        return body
    if f"{GROUP}/{version}" == _FLAT:
        body = _with(body, _LISTS.get(resource.plural, ()), _with_basic if _is_slice(resource) else _flattened)
    if body.get("apiVersion") != resource.api_version:
        return body  # a patch need not say it, and options of a deletion are of another group
    return {**body, "apiVersion": f"{GROUP}/{version}"}


def _is_slice(resource: Resource) -> bool:
    return resource.plural == "resourceslices"


def _with(obj: JsonObject, path: tuple[str, ...], change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """With every object of the list at the path changed; as it is where the path leads nowhere."""
    if not path or path[0] not in obj:
        return obj
    key, rest = path[0], path[1:]
    there = obj[key]
    if rest:
        return {**obj, key: _with(there, rest, change)} if is_object(there) else obj
    if not isinstance(there, list):
        return obj
    return {**obj, key: [change(one) if is_object(one) else one for one in there]}


def _gathered(device: JsonObject) -> JsonObject:
    """A device of v1beta1."""
    basic = device.get(_BASIC)
    rest = {key: value for key, value in device.items() if key != _BASIC}
    return {**rest, **basic} if is_object(basic) else rest


def _with_basic(device: JsonObject) -> JsonObject:
    return {
        _NAME: device.get(_NAME, ""),
        _BASIC: {key: value for key, value in device.items() if key != _NAME},
    }


def _asked_exactly(request: JsonObject) -> JsonObject:
    """A request of v1beta1. One with alternatives has the class "" beside them, which v1 has no place for."""
    rest = {key: value for key, value in request.items() if key not in (_NAME, _ALTERNATIVES)}
    named: JsonObject = {_NAME: request.get(_NAME, "")}
    if request.get(_ALTERNATIVES):
        return {**named, _ALTERNATIVES: request[_ALTERNATIVES]}
    return {**named, _EXACTLY: rest}


def _flattened(request: JsonObject) -> JsonObject:
    exactly = request.get(_EXACTLY)
    rest = {key: value for key, value in request.items() if key != _EXACTLY}
    return {**rest, **exactly} if is_object(exactly) else rest


_AnswerT = TypeVar("_AnswerT")


class VersionedTransport:
    """Sends requests for kinds of `resource.k8s.io` in the version that the server serves.

    Callers name these kinds in v1 and read and write v1. Which version goes over the wire is asked for before the first
    request, and again when a path is not served any more, since the API server was upgraded, or another replica answers
    that was not yet. Who watches goes on from the version (of its objects) that it had reached.
    moved: set whenever another version is used than before.
    """

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
