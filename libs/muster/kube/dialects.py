"""Read and write `resource.k8s.io` as v1, whichever version the API server serves.

Kubernetes 1.32 serves v1beta1, 1.33 also v1beta2, 1.34 v1. v1beta2 differs from v1 in its name only. v1beta1 puts a
device into `basic`, and the fields of a request beside its name, where v1 has `exactly`. Everything else, including the
allocation, is the same. Source: api/resource/{v1beta1,v1beta2,v1}/types.go of Kubernetes 1.32 and 1.34.
Unknown fields are kept as read, so a replaced claim keeps fields that Muster does not know.
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
"""The version that callers read and write."""
VERSIONS = (CANONICAL, "v1beta2", "v1beta1")
"""Known versions, newest first."""
_FLAT = f"{GROUP}/v1beta1"
_LISTS = {
    "resourceslices": ("spec", "devices"),
    "resourceclaims": ("spec", "devices", "requests"),
    "resourceclaimtemplates": ("spec", "spec", "devices", "requests"),
}
"""Path of the list whose entries differ, by plural."""
_PATH = f"/apis/{GROUP}"


_NAME, _BASIC, _EXACTLY, _ALTERNATIVES = "name", "basic", "exactly", "firstAvailable"


def is_translated(resource: Resource) -> bool:
    """Return whether the resource belongs to the group with several versions."""
    return resource.group == GROUP


def newest(versions: Iterable[str]) -> str:
    """Return the newest known version among those served; "" if none is known."""
    there = frozenset(versions)
    return next((version for version in VERSIONS if version in there), "")


def is_served(group_version: str, served: Iterable[str]) -> bool:
    """Return whether a group is served (entries of /apis); for `resource.k8s.io` any known version counts."""
    there = frozenset(served)
    if group_version == GROUP:
        return any(f"{GROUP}/{version}" in there for version in VERSIONS)
    return group_version in there


def understood(resource: Resource, obj: JsonObject, api_version: str = "") -> JsonObject:
    """Return an object in its v1 form. `api_version` is the list's, whose items have none.

    The object itself is not changed. Other objects, such as a Status, are returned as they are.
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
    """Return a v1 object, or a merge patch of one, in the form of `version`."""
    if version == CANONICAL:
        return body
    if f"{GROUP}/{version}" == _FLAT:
        body = _with(body, _LISTS.get(resource.plural, ()), _with_basic if _is_slice(resource) else _flattened)
    if body.get("apiVersion") != resource.api_version:
        return body  # a patch may omit it, and delete options are of another group
    return {**body, "apiVersion": f"{GROUP}/{version}"}


def _is_slice(resource: Resource) -> bool:
    return resource.plural == "resourceslices"


def _with(obj: JsonObject, path: tuple[str, ...], change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Return the object with `change` applied to every object of the list at the path."""
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
    """Convert a device of v1beta1."""
    basic = device.get(_BASIC)
    rest = {key: value for key, value in device.items() if key != _BASIC}
    return {**rest, **basic} if is_object(basic) else rest


def _with_basic(device: JsonObject) -> JsonObject:
    return {
        _NAME: device.get(_NAME, ""),
        _BASIC: {key: value for key, value in device.items() if key != _NAME},
    }


def _asked_exactly(request: JsonObject) -> JsonObject:
    """Convert a request of v1beta1. With alternatives it has the class "" beside them, which v1 omits."""
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
    """Sends requests for kinds of `resource.k8s.io` in the version that the server serves; callers use v1.

    The version is looked up before the first request, and again when a path is no longer served: after an upgrade of
    the API server, or when a replica answers that is not upgraded yet. A watch continues from its resourceVersion.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._version = ""
        self._asking = asyncio.Lock()
        self.moved = asyncio.Event()
        """Set whenever another version is used than before."""

    @property
    def version(self) -> str:
        """Return the version in use; "" before the first request."""
        return self._version

    async def json(self, resource: Resource, request: Request) -> JsonObject:
        """Send a request; returns the answer, or the items of a list, as v1."""
        said = await self._sent(resource, request, self._transport.json)
        items = said.get("items")
        if not isinstance(items, list):
            return understood(resource, said)
        of_list = text(said, "apiVersion")
        return {**said, "items": [understood(resource, one, of_list) if is_object(one) else one for one in items]}

    @asynccontextmanager
    async def stream(self, resource: Resource, request: Request, *, silence_s: float) -> AsyncIterator[Lines]:
        """Open a watch. Its lines are in the server's version, which each object names."""
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
            words = f"{missing}; the API server serves {GROUP}/{version} on another replica: no change was applied"
            raise UnavailableError(words, asked=request.asked) from missing
        return await send(_in(now, resource, request))

    async def _ask(self, *, but: str = "") -> str:
        """Return the newest served version, "" if there is none; `but` is the version that failed just now."""
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
    """Return the request in the served version. Without one it stays v1, for the server to refuse."""
    if version in ("", CANONICAL):
        return request
    path = request.path.replace(f"{_PATH}/{CANONICAL}/", f"{_PATH}/{version}/", 1)
    body = worded(resource, request.body, version) if is_object(request.body) else request.body
    return replace(request, path=path, body=body)
