"""The fake API server's HTTP: paths, verbs, pages, and a log of what was asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web
from pydantic_core import from_json, to_json

from kit.kube.fake.asked import Asked, Logged, understood
from kit.kube.fake.bearers import Bearer
from kit.kube.fake.devices import GROUP, STORED, shown, taken
from kit.kube.fake.discovery import document
from kit.kube.fake.faults import Faults
from kit.kube.fake.patches import merged
from kit.kube.fake.store import Event, Refusal, Store
from kit.kube.fake.watching import Watch
from kit.kube.fake.working import Worker
from muster.kube import resources
from muster.kube.objects import JsonObject, integer, is_object, mapping, name_of, objects, text
from muster.kube.resources import NAMESPACES, Resource

KNOWN = tuple(value for value in vars(resources).values() if isinstance(value, Resource))
WITHOUT_STATUS = frozenset({"secrets", "configmaps", "events", "leases", "endpointslices", "priorityclasses", "roles"})


class FakeKube:
    """An API server. streaming_lists: whether sendInitialEvents is served; bookmark_s: between bookmarks of a watch.

    without: API groups that it does not serve ("resource.k8s.io": a cluster without DRA). devices: the versions of
    that group that it serves.
    """

    def __init__(
        self,
        *,
        streaming_lists: bool = True,
        bookmark_s: float = 60.0,
        version: str = "v1.34.4",
        without: Collection[str] = (),
        devices: Sequence[str] = (STORED,),
    ) -> None:
        self.store = Store()
        self.faults = Faults()
        self.streaming_lists = streaming_lists
        self.bookmark_s = bookmark_s
        self.version = version
        self.serves_but_says: Sequence[str] | None = None
        """Versions of `resource.k8s.io` that discovery tells instead of those that are served: of another replica."""
        self.metrics = ""
        """What /metrics says."""
        self.watch_buffer_max = 100_000
        self.log: list[Logged] = []
        self.on_bind: list[Callable[[JsonObject], None]] = []
        """Called with every pod that was bound."""
        self.watches: set[Watch] = set()
        self.url = ""
        self.bearers: dict[str, Bearer] = {}
        """Who bears which token, for TokenReview."""
        self._worker = Worker(self.store, self.faults, self.on_bind, self.bearers)
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.store.listeners.append(self._tell)
        for resource in KNOWN:
            if resource.group in without:
                continue
            self.store.register(resource, has_status=resource.plural not in WITHOUT_STATUS)
        self.store.versions = {} if GROUP in without else {GROUP: tuple(devices)}
        for namespace in ("default", "kube-system"):
            self.store.create(NAMESPACES, {"metadata": {"name": namespace}})

    def register(self, resource: Resource, *, has_status: bool = True) -> None:
        """Serve this kind too."""
        self.store.register(resource, has_status=has_status)

    def add(self, resource: Resource, body: JsonObject) -> JsonObject:
        """Create it from inside: no request is logged."""
        return self.store.create(resource, body, text(body, "metadata", "namespace"))

    def set_status(self, resource: Resource, name: str, status: JsonObject, namespace: str = "") -> JsonObject:
        """Merge into the status from inside, as a controller or kubelet does."""
        old = self.store.get(resource, name, namespace)
        return self.store.replace(
            resource, name, {"metadata": {}, "status": merged(old.get("status", {}), status)}, namespace, status=True
        )

    def change(self, resource: Resource, name: str, patch: JsonObject, namespace: str = "") -> JsonObject:
        """Merge into the object from inside."""
        new = merged(self.store.get(resource, name, namespace), patch)
        assert is_object(new)
        mapping(new, "metadata").pop("resourceVersion", None)
        return self.store.replace(resource, name, new, namespace)

    def remove(self, resource: Resource, name: str, namespace: str = "", *, grace_s: int | None = 0) -> None:
        """Delete it from inside."""
        self.store.delete(resource, name, namespace, grace_s=grace_s)

    def count(self, verb: str = "", resource: str = "", *, user_agent: str = "") -> int:
        """Requests that were logged; user_agent: its beginning."""
        return len(self.asked(verb, resource, user_agent=user_agent))

    def asked(self, verb: str = "", resource: str = "", *, user_agent: str = "") -> list[Logged]:
        """The same, themselves."""
        return [
            one
            for one in self.log
            if (not verb or one.verb == verb)
            and (not resource or one.resource == resource)
            and one.user_agent.startswith(user_agent)
        ]

    def bookmark(self) -> None:
        """Send one to every watch now."""
        for watch in self.watches:
            watch.bookmark(self.store.version)

    def compact(self) -> None:
        """Old versions are 410 from now on."""
        self.store.compact()
        self._worker.forget_pages()

    def end_watches(self) -> None:
        """End all cleanly, as the server does with slow readers and at time-outs."""
        for watch in list(self.watches):
            watch.end()

    def drop_connections(self) -> None:
        """Break all connections off."""
        assert self._runner is not None
        assert self._runner.server is not None
        for connection in list(self._runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    def serve_devices(self, *versions: str) -> None:
        """From now on `resource.k8s.io` is served in these versions: the server was upgraded, and began anew."""
        self.store.versions[GROUP] = versions
        self.drop_connections()

    def _served(self) -> list[Resource]:
        kinds = [kind.resource for kind in self.store.kinds.values()]
        versions = dict(self.store.versions)
        if self.serves_but_says is not None:
            versions[GROUP] = tuple(self.serves_but_says)
        return [replace(one, version=number) for one in kinds for number in versions.get(one.group, (one.version,))]

    async def start(self) -> None:
        """Listen on loopback; after `stop` on the same port."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Listen no more and break all connections off; what is stored stays."""
        if self._runner is not None:
            self.drop_connections()
            runner, self._runner = self._runner, None
            await runner.cleanup()

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """While the block runs, connections are refused."""
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    def _tell(self, event: Event) -> None:
        if self.faults.lost_events and self.watches:
            self.faults.lost_events -= 1
            return
        for watch in self.watches:
            watch.offer(event)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        asked: Asked | None = None
        code = 0
        try:
            asked = understood(request, self.store)
            if asked is None:
                return document(request.path, self._served(), version=self.version, metrics=self.metrics)
            answer = await self._answered(asked)
            code = answer.status
        except Refusal as refusal:
            code = refusal.code
            headers = {"Retry-After": str(refusal.status["details"]["retryAfterSeconds"])} if _after(refusal) else {}  # type: ignore[index]
            return web.Response(
                body=to_json(refusal.status), status=code, content_type="application/json", headers=headers
            )
        else:
            return answer
        finally:
            if asked is not None and not asked.noted:
                self._note(asked, code)

    def _note(self, asked: Asked, code: int) -> None:
        asked.noted = True
        agent = asked.request.headers.get("User-Agent", "")
        name = asked.name or (name_of(asked.body) if is_object(asked.body) else "")
        self.log.append(Logged(asked.verb, asked.title, asked.namespace, name, agent, asked.query, code))

    async def _answered(self, asked: Asked) -> web.StreamResponse:
        if self.faults.latency_s:
            await asyncio.sleep(self.faults.latency_s)
        if asked.request.can_read_body:
            with contextlib.suppress(ValueError):
                asked.body = from_json(await asked.request.read())
        self.faults.refuse_forbidden(asked.verb, asked.title, asked.resource.group, asked.namespace)
        if self.faults.hook is not None:
            self.faults.hook(asked.verb, asked.title, asked.name)
        self._fail(asked, after_work=False)
        if asked.verb == "watch":
            return await self._watch(asked)
        if asked.is_translated and is_object(asked.body):
            asked.body = taken(asked.resource, asked.version, asked.body, whole=asked.verb in ("create", "update"))
        code, said = self._worker.work(asked)
        self._fail(asked, after_work=True)
        if asked.is_translated and not asked.metadata_only:
            said = _shown(asked, from_json(said) if isinstance(said, bytes) else said)
        return web.Response(
            body=said if isinstance(said, bytes) else to_json(said), status=code, content_type="application/json"
        )

    def _fail(self, asked: Asked, *, after_work: bool) -> None:
        rule = self.faults.meet(asked.verb, asked.title, after_work=after_work)
        if rule is None:
            return
        if rule.hang_up:
            assert asked.request.transport is not None
            asked.request.transport.abort()
        details = {} if rule.retry_after_s is None else {"retryAfterSeconds": rule.retry_after_s}
        raise Refusal(rule.code, rule.reason, rule.message, **details)

    def _begun(self, asked: Asked) -> Watch:
        """A watch with its first events. Raises Refusal."""
        query, version = asked.query, asked.query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.streaming_lists:
            message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise Refusal(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: {message}')
        if initial and query.get("resourceVersionMatch") != "NotOlderThan":
            message = "resourceVersionMatch: Forbidden: resourceVersionMatch is required with sendInitialEvents"
            raise Refusal(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {message}')
        if version.isdecimal() and int(version) > self.store.version:
            raise Refusal(504, "Timeout", f"Too large resource version: {version}", retryAfterSeconds=1)
        watch = Watch(
            asked.kind,
            asked.namespace,
            self._worker.matcher(asked),
            asked.metadata_only,
            asked.request.headers.get("User-Agent", ""),
            self.watch_buffer_max,
            asked.version if asked.is_translated else "",
        )
        if initial or version in ("", "0"):
            for stored in watch.state():
                watch.put(b'{"type":"ADDED","object":' + watch.json(stored) + b"}\n")
            if initial and query.get("allowWatchBookmarks") == "true":
                watch.bookmark(self.store.version, end_of_initial=True)
        else:
            watch.replay(int(version))
        return watch

    async def _watch(self, asked: Asked) -> web.StreamResponse:
        watch = self._begun(asked)
        self._note(asked, 200)  # now: it may be open for long
        until_s = asyncio.get_running_loop().time() + float(asked.query.get("timeoutSeconds") or 1800)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        self.watches.add(watch)
        bookmarks = asyncio.create_task(self._bookmarks(watch, asked.query.get("allowWatchBookmarks") == "true"))
        try:
            await response.prepare(asked.request)
            async for batch in watch.lines(self.faults, until_s=until_s):
                await response.write(batch)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            return response  # the reader is gone, or the server stops
        finally:
            self.watches.discard(watch)
            bookmarks.cancel()
        return response

    async def _bookmarks(self, watch: Watch, wanted: bool) -> None:
        while wanted:
            await asyncio.sleep(self.bookmark_s)
            watch.bookmark(self.store.version)


def _shown(asked: Asked, said: JsonObject) -> JsonObject:
    """An answer in the version of its path."""
    if text(said, "kind") == "Status":
        return said
    if asked.verb != "list":
        return shown(asked.resource, asked.version, said)
    items = [shown(asked.resource, asked.version, one) for one in objects(said, "items")]
    for one in items:  # as real servers do: the list alone says what its items are
        one.pop("apiVersion", None)
        one.pop("kind", None)
    return {**said, "apiVersion": f"{GROUP}/{asked.version}", "items": items}


def _after(refusal: Refusal) -> int:
    return integer(refusal.status, "details", "retryAfterSeconds")


@asynccontextmanager
async def fake_kube(**options: object) -> AsyncIterator[FakeKube]:
    """A fake API server while the block runs. options: those of `FakeKube`."""
    kube = FakeKube(**options)  # type: ignore[arg-type]
    await kube.start()
    try:
        yield kube
    finally:
        await kube.stop()
