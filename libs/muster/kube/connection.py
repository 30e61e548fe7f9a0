"""One connection to an API server: JSON in, JSON out, typed errors, bounded retries; see `KubeConnection`.

The official client logs in (`official`); requests go through aiohttp as plain JSON, because its typed models cost
hundreds of MiB and block the loop for seconds.
"""

from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from muster.kube import bounds
from muster.kube.credentials import AnotherReplica, Credentials, NoCredentials, read_credentials
from muster.kube.dialects import VersionedTransport, is_translated
from muster.kube.errors import Asked, UnavailableError
from muster.kube.objects import JsonObject, integer, objects, text, version_of
from muster.kube.resources import Resource
from muster.kube.shapes import EVERYTHING, PLAIN, Page, Patch, Propagation, Selection, Writing
from muster.kube.transport import JSON, Lines, Request, Transport

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Where:
    """The object or collection that a request addresses."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def request(
        self,
        method: str,
        verb: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | list[JsonObject] | None = None,
        accept: str = JSON,
        content_type: str = JSON,
        timeout_s: float = bounds.REQUEST_S,
    ) -> Request:
        """Build the request; `verb` is RBAC's, which a refusal must name."""
        kind = self.resource
        plural = f"{kind.plural}/{self.subresource}" if self.subresource else kind.plural
        title = f"{plural}.{kind.group}" if kind.group else plural
        return Request(
            method,
            kind.path(namespace=self.namespace, name=self.name, subresource=self.subresource),
            Asked(verb, title, namespace=self.namespace, name=self.name or text(body, "metadata", "name")),
            query=query or {},
            body=body,
            accept=accept,
            content_type=content_type,
            timeout_s=timeout_s,
        )


class KubeConnection:
    """All requests to one API server. `user_agent` comes from `user_agent_of`; `seed` spreads retries and renewals.

    Every method raises a KubeError: NotFoundError, ConflictError, AlreadyExistsError, GoneError, UnauthorizedError,
    ForbiddenError, InvalidError, TooManyRequestsError or UnavailableError; and KubeConfigError where credentials cannot
    be renewed. Reads, and changes that the server rejected before reading them, are tried `attempts_max` times. Kinds
    of `resource.k8s.io` are named, read and written as v1, whichever version the server has (`versioned`).
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        seed: int = 0,
        connections_max: int = bounds.CONNECTIONS_MAX,
        watches_max: int = bounds.WATCHES_MAX,
        connection_age_s_max: float = bounds.CONNECTION_AGE_S,
        attempts_max: int = bounds.ATTEMPTS_MAX,
    ) -> None:
        self._credentials = credentials
        self._user_agent = user_agent
        self._seed = seed
        self._age_s_max = connection_age_s_max
        self._transport = Transport(
            credentials,
            user_agent=user_agent,
            seed=seed,
            connections_max=connections_max,
            watches_max=watches_max,
            connection_age_s_max=connection_age_s_max,
            attempts_max=attempts_max,
        )
        self._versioned = VersionedTransport(self._transport)

    @classmethod
    async def open(
        cls,
        *,
        kubeconfig: Path | None,
        context: str = "",
        user_agent: str,
        seed: int = 0,
        connections_max: int = bounds.CONNECTIONS_MAX,
        connection_age_s_max: float = bounds.CONNECTION_AGE_S,
    ) -> Self:
        """Open with a kubeconfig file, or with None as the pod's service account. Sends nothing. Raises
        KubeConfigError."""
        credentials = await read_credentials(kubeconfig, context=context)
        return cls(
            credentials,
            user_agent=user_agent,
            seed=seed,
            connections_max=connections_max,
            connection_age_s_max=connection_age_s_max,
        )

    @classmethod
    def plain(cls, url: str, *, user_agent: str, seed: int = 0) -> Self:
        """Open to a server without authentication: a fake one, or `kubectl proxy`."""
        return cls(NoCredentials(url), user_agent=user_agent, seed=seed)

    def at_replica(self, url: str, *, server_name: str | None = None) -> "KubeConnection":
        """Return a connection to the address of one replica with the same credentials; the caller closes it."""
        return KubeConnection(
            AnotherReplica(self._credentials, url, server_name=server_name),
            user_agent=self._user_agent,
            seed=self._seed,
            connections_max=2,
            watches_max=1,
            connection_age_s_max=self._age_s_max,
            attempts_max=1,
        )

    @property
    def url(self) -> str:
        """Return the URL of the API server."""
        return self._credentials.url

    @property
    def source(self) -> tuple[str, str]:
        """Return server and credentials: connections with the same source see the same objects."""
        return self._credentials.url, self._credentials.where

    @property
    def versioned(self) -> VersionedTransport:
        """Return the transport for `resource.k8s.io`, which knows the server's version."""
        return self._versioned

    @property
    def requests_sent(self) -> int:
        """Return the number of requests sent, including retries and watches."""
        return self._transport.sent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, also those of running watches."""
        await self._transport.close()

    async def get(
        self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "", metadata_only: bool = False
    ) -> JsonObject:
        """Read one object."""
        where = Where(resource, namespace=namespace, name=name, subresource=subresource)
        accept = METADATA_ONE if metadata_only else JSON
        return await self._json(resource, where.request("GET", "get", accept=accept))

    async def list_page(
        self,
        resource: Resource,
        *,
        select: Selection = EVERYTHING,
        limit: int = bounds.PAGE_ITEMS,
        continue_token: str = "",
        version: str = "",
        version_match: str = "",
        metadata_only: bool = False,
    ) -> Page:
        """List one page. Version "" reads the newest state, "0" the server's cache (and ignores `limit`)."""
        query = select.query() | {"limit": str(limit)}
        if continue_token:
            query["continue"] = continue_token
        elif version:
            query["resourceVersion"] = version
            if version_match:
                query["resourceVersionMatch"] = version_match
        accept = METADATA_LIST if metadata_only else JSON
        where = Where(resource, namespace=select.namespace)
        said = await self._json(
            resource, where.request("GET", "list", query=query, accept=accept, timeout_s=bounds.LIST_S)
        )
        if not version_of(said):  # taken as an empty list, it would delete all objects
            asked = Asked("list", resource.title, select.namespace)
            raise UnavailableError(
                f"{asked}: the answer is not a list; check that the address is an API server", asked=asked
            )
        return Page(
            items=objects(said, "items"),
            version=version_of(said),
            continue_token=text(said, "metadata", "continue"),
            remaining=integer(said, "metadata", "remainingItemCount"),
        )

    async def create(
        self,
        resource: Resource,
        body: JsonObject,
        *,
        namespace: str = "",
        writing: Writing = PLAIN,
        metadata_only: bool = False,
    ) -> JsonObject:
        """Create an object and return it as the server completed it, or only its metadata."""
        where = Where(resource, namespace=namespace)
        accept = METADATA_ONE if metadata_only else JSON
        return await self._json(
            resource, where.request("POST", "create", query=writing.query(), body=body, accept=accept)
        )

    async def create_subresource(
        self,
        resource: Resource,
        name: str,
        subresource: str,
        body: JsonObject,
        *,
        namespace: str = "",
        writing: Writing = PLAIN,
    ) -> JsonObject:
        """Create a `binding` or `eviction` of a pod; returns a Status."""
        where = Where(resource, namespace=namespace, name=name, subresource=subresource)
        return await self._json(resource, where.request("POST", "create", query=writing.query(), body=body))

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: JsonObject,
        *,
        namespace: str = "",
        subresource: str = "",
        writing: Writing = PLAIN,
    ) -> JsonObject:
        """Replace an object; with metadata.resourceVersion only if that is still its version."""
        where = Where(resource, namespace=namespace, name=name, subresource=subresource)
        return await self._json(resource, where.request("PUT", "update", query=writing.query(), body=body))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: JsonObject | list[JsonObject],
        *,
        kind: Patch,
        namespace: str = "",
        subresource: str = "",
        writing: Writing = PLAIN,
    ) -> JsonObject:
        """Patch an object. The body is a list for `Patch.JSON`, and all owned fields for `Patch.APPLY`."""
        if kind is Patch.APPLY and not writing.field_manager:
            raise ValueError("field_manager: must be set for an apply patch; give the owner of the fields")
        where = Where(resource, namespace=namespace, name=name, subresource=subresource)
        return await self._json(
            resource, where.request("PATCH", "patch", query=writing.query(), body=body, content_type=kind.value)
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        propagation: Propagation | None = None,
    ) -> JsonObject:
        """Delete an object if it has this uid and version. Returns the object, or a Status if it is gone."""
        options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation.value
        where = Where(resource, namespace=namespace, name=name)
        return await self._json(resource, where.request("DELETE", "delete", body=options))

    async def get_path(self, path: str, *, query: Mapping[str, str] | None = None) -> JsonObject:
        """Read any JSON document of the server: "/version", "/apis/resource.k8s.io"."""
        return await self._transport.json(Request("GET", path, Asked("get", path), query=query or {}))

    def watch(
        self,
        resource: Resource,
        *,
        select: Selection = EVERYTHING,
        version: str = "",
        initial_events: bool = False,
        metadata_only: bool = False,
        timeout_s: int,
        silence_s: float,
    ) -> AbstractAsyncContextManager[Lines]:
        """Open a watch: lines of JSON, one event each, with bookmarks. Sent once: a reflector decides when to repeat
        it.

        `initial_events` begins with the whole state (a streaming list), whose end is marked. The server ends the watch
        after `timeout_s`. `silence_s` (see `Lines`) also limits the wait for the answer.
        """
        query = select.query() | {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if version:
            query["resourceVersion"] = version
        where = Where(resource, namespace=select.namespace)
        accept = METADATA_ONE if metadata_only else JSON
        request = where.request("GET", "watch", query=query, accept=accept)
        if is_translated(resource):
            return self._versioned.stream(resource, request, silence_s=silence_s)
        return self._transport.stream(request, silence_s=silence_s, watching=True)

    def _json(self, resource: Resource, request: Request) -> Awaitable[JsonObject]:
        """Send the request; kinds with several versions are read as v1."""
        return self._versioned.json(resource, request) if is_translated(resource) else self._transport.json(request)

    def lines(self, path: str, *, timeout_s: float = bounds.REQUEST_S) -> AbstractAsyncContextManager[Lines]:
        """Stream a page of text by line: "/metrics". Sent once."""
        request = Request("GET", path, Asked("get", path), accept="text/plain", timeout_s=timeout_s)
        return self._transport.stream(request, silence_s=timeout_s, watching=False)


def user_agent_of(service: str, version: str) -> str:
    """Return `muster-agent/0.1.0`, by which the API server's metrics tell services apart."""
    return f"muster-{service}/{version}"
