"""The fake API server's HTTP: paths, verbs, pages, and a log of what was asked."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from pydantic_core import from_json, to_json

from kube_fake.faults import Faults
from kube_fake.patches import json_patched, merged, strategic
from kube_fake.selectors import matcher
from kube_fake.store import PARTIAL, Event, Kind, Refusal, Store, Stored
from kube_fake.watching import Watch
from muster.kube import resources
from muster.kube.objects import JsonObject, integer, is_object, mapping, name_of, objects, text, truth
from muster.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource

KNOWN = tuple(value for value in vars(resources).values() if isinstance(value, Resource))
WITHOUT_STATUS = frozenset({"secrets", "configmaps", "events", "leases", "endpointslices", "priorityclasses", "roles"})
FAULTY = 599


@dataclass(frozen=True)
class Logged:
    """One request. verb: of RBAC; resource: "pods/binding"; code: what was answered, 0 if nothing was."""

    verb: str
    resource: str
    namespace: str
    name: str
    user_agent: str
    query: dict[str, str]
    code: int


@dataclass
class Asked:
    """One request, understood."""

    request: web.Request
    verb: str
    kind: Kind
    namespace: str
    name: str
    subresource: str
    body: JsonObject | list[object] = field(default_factory=dict)
    noted: bool = False

    @property
    def resource(self) -> Resource:
        return self.kind.resource

    @property
    def title(self) -> str:
        plural = self.resource.plural
        plural = f"{plural}/{self.subresource}" if self.subresource else plural
        return f"{plural}.{self.resource.group}" if self.resource.group else plural

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query)

    @property
    def metadata_only(self) -> bool:
        return "as=PartialObjectMetadata" in self.request.headers.get("Accept", "")

    @property
    def dry_run(self) -> bool:
        return self.request.query.get("dryRun") == "All"

    def obj(self) -> JsonObject:
        if not is_object(self.body):
            raise Refusal(400, "BadRequest", "the body is no object")
        return self.body


class FakeKube:
    """An API server. streaming_lists: whether sendInitialEvents is served; bookmark_s: between bookmarks of a watch."""

    def __init__(self, *, streaming_lists: bool = True, bookmark_s: float = 60.0, version: str = "v1.34.4") -> None:
        self.store = Store()
        self.faults = Faults()
        self.streaming_lists = streaming_lists
        self.bookmark_s = bookmark_s
        self.version = version
        self.metrics = ""
        """What /metrics says."""
        self.watch_buffer_max = 100_000
        self.log: list[Logged] = []
        self.on_bind: list[Callable[[JsonObject], None]] = []
        """Called with every pod that was bound."""
        self.watches: set[Watch] = set()
        self.url = ""
        self._pages: dict[str, tuple[int, list[Stored]]] = {}
        self._tokens = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.store.listeners.append(self._tell)
        for resource in KNOWN:
            self.store.register(resource, has_status=resource.plural not in WITHOUT_STATUS)
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
        self._pages.clear()

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
            asked = self._understood(request)
            if asked is None:
                return self._document(request.path)
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
        answer = self._work(asked)
        self._fail(asked, after_work=True)
        code, said = answer
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

    def _understood(self, request: web.Request) -> Asked | None:
        """None for a document that is no object."""
        parts = request.path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) >= 3:
            namespace, rest = rest[1], rest[2:]
        kind = self.store.kinds.get((group, version, rest[0]))
        if kind is None:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        name, subresource = (rest[1] if len(rest) > 1 else ""), (rest[2] if len(rest) > 2 else "")
        return Asked(request, _verb(request, name), kind, namespace, name, subresource)

    def _work(self, asked: Asked) -> tuple[int, bytes | JsonObject]:
        if asked.verb == "list":
            return 200, self._list(asked)
        if asked.verb == "create" and asked.subresource:
            return 201, self._act(asked)
        if asked.verb == "create":
            return 201, self._create(asked)
        if asked.verb == "delete":
            return 200, self._delete(asked)
        stored = None
        if asked.verb == "get":
            stored = self.store.stored(asked.resource, asked.name, asked.namespace)
            return 200, stored.json(metadata_only=asked.metadata_only)
        if asked.subresource not in ("", "status"):
            raise Refusal(404, "NotFound", f"{asked.title} is not served")
        status = asked.subresource == "status"
        body = asked.obj() if asked.verb == "update" else self._patched(asked)
        return 200, self.store.replace(
            asked.resource, asked.name, body, asked.namespace, status=status, dry_run=asked.dry_run
        )

    def _patched(self, asked: Asked) -> JsonObject:
        media = asked.request.content_type
        applies = media == "application/apply-patch+yaml"
        old = self.store.find(asked.resource, asked.name, asked.namespace)
        if old is None and applies and not asked.subresource:
            self.store.create(asked.resource, asked.obj(), asked.namespace)
        old = self.store.get(asked.resource, asked.name, asked.namespace)
        if applies and not asked.query.get("fieldManager"):
            raise Refusal(400, "BadRequest", "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value")
        if media == "application/strategic-merge-patch+json" and "." in asked.resource.group.removesuffix(".k8s.io"):
            message = "the body of the request was in an unknown format - accepted media types include: ..."
            raise Refusal(415, "UnsupportedMediaType", message)
        try:
            if media == "application/json-patch+json":
                assert isinstance(asked.body, list)
                new: object = json_patched(old, asked.body)
            elif applies or media == "application/strategic-merge-patch+json":
                new = strategic(old, asked.obj())
            else:
                new = merged(old, asked.obj())
        except ValueError as error:
            raise Refusal(422, "Invalid", str(error)) from error
        assert is_object(new)
        if not is_object(asked.body) or not text(asked.body, "metadata", "resourceVersion"):
            new = {**new, "metadata": {**mapping(new, "metadata"), "resourceVersion": ""}}
        return new

    def _create(self, asked: Asked) -> JsonObject:
        if asked.resource.plural == "selfsubjectaccessreviews":
            wanted = mapping(asked.obj(), "spec", "resourceAttributes")
            plural, group, sub = (text(wanted, key) for key in ("resource", "group", "subresource"))
            plural = f"{plural}/{sub}" if sub else plural
            allowed = not self.faults.forbids(text(wanted, "verb"), f"{plural}.{group}" if group else plural)
            return {**asked.obj(), "status": {"allowed": allowed}}
        made = self.store.create(asked.resource, asked.obj(), asked.namespace, dry_run=asked.dry_run)
        if asked.resource == CUSTOM_RESOURCE_DEFINITIONS and not asked.dry_run:
            self._define(made)
        return made

    def _define(self, definition: JsonObject) -> None:
        spec = mapping(definition, "spec")
        for version in objects(spec, "versions"):
            if truth(version, "served"):
                plural, kind = text(spec, "names", "plural"), text(spec, "names", "kind")
                namespaced = text(spec, "scope") == "Namespaced"
                resource = Resource(text(spec, "group"), text(version, "name"), plural, namespaced, kind)
                self.register(resource, has_status="status" in mapping(version, "subresources"))
        conditions = [{"type": "Established", "status": "True"}]
        self.set_status(CUSTOM_RESOURCE_DEFINITIONS, name_of(definition), {"conditions": conditions})

    def _act(self, asked: Asked) -> JsonObject:
        success: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        if asked.resource == PODS and name_of(asked.obj()) != asked.name:
            kind = "Binding" if asked.subresource == "binding" else "Eviction"
            raise Refusal(400, "BadRequest", f"name in URL does not match name in {kind} object")
        if asked.resource == PODS and asked.subresource == "binding":
            self.store.bind(asked.name, asked.namespace, asked.obj(), dry_run=asked.dry_run)
            for told in self.on_bind:
                told(self.store.get(PODS, asked.name, asked.namespace))
            return success
        if asked.resource == PODS and asked.subresource == "eviction":
            self._evict(asked)
            return success
        raise Refusal(404, "NotFound", f"{asked.title} is not served")

    def _evict(self, asked: Asked) -> None:
        self.store.get(PODS, asked.name, asked.namespace)
        if asked.name in self.faults.protected:
            cause = {"reason": "DisruptionBudget", "message": "The disruption budget needs 1 healthy pods and has 1"}
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise Refusal(429, "TooManyRequests", message, causes=[cause])
        options = mapping(asked.obj(), "deleteOptions")
        grace = options.get("gracePeriodSeconds")
        self.store.delete(
            PODS,
            asked.name,
            asked.namespace,
            uid=text(options, "preconditions", "uid"),
            grace_s=grace if isinstance(grace, int) else None,
            dry_run=asked.dry_run,
        )

    def _delete(self, asked: Asked) -> JsonObject:
        options = asked.obj()
        grace = options.get("gracePeriodSeconds")
        left = self.store.delete(
            asked.resource,
            asked.name,
            asked.namespace,
            uid=text(options, "preconditions", "uid"),
            version=text(options, "preconditions", "resourceVersion"),
            grace_s=grace if isinstance(grace, int) else None,
            dry_run=asked.dry_run,
        )
        return left or {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}

    def _list(self, asked: Asked) -> bytes:
        query = asked.query
        limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
        if token := query.get("continue"):
            if token not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            version, left = self._pages.pop(token)
        else:
            version, left = self.store.version, self._selected(asked)
        page, rest = (left[:limit], left[limit:]) if limit else (left, [])
        metadata: JsonObject = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = f"token-{next(self._tokens)}"
            self._pages[str(metadata["continue"])] = (version, rest)
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = len(rest)
        kind, api_version = f"{asked.resource.kind}List", asked.resource.api_version
        if asked.metadata_only:
            kind, api_version = f"{PARTIAL['kind']}List", PARTIAL["apiVersion"]
        items = b",".join(stored.json(metadata_only=asked.metadata_only) for stored in page)
        head = to_json({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + items + b"]}"

    def _selected(self, asked: Asked) -> list[Stored]:
        version = asked.query.get("resourceVersion", "")
        if version.isdecimal() and int(version) > self.store.version:
            raise Refusal(504, "Timeout", f"Too large resource version: {version}, current: {self.store.version}",
                          retryAfterSeconds=1, causes=[{"reason": "ResourceVersionTooLarge"}])  # fmt: skip
        matches = self._matcher(asked)
        return [one for one in self.store.listed(asked.resource, asked.namespace) if matches(one.obj)]

    def _matcher(self, asked: Asked) -> Callable[[JsonObject], bool]:
        try:
            return matcher(asked.query.get("labelSelector", ""), asked.query.get("fieldSelector", ""))
        except ValueError as error:
            raise Refusal(400, "BadRequest", str(error)) from error

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
            self._matcher(asked),
            asked.metadata_only,
            asked.request.headers.get("User-Agent", ""),
            self.watch_buffer_max,
        )
        if initial or version in ("", "0"):
            for stored in watch.state():
                watch.put(b'{"type":"ADDED","object":' + stored.json(metadata_only=watch.metadata_only) + b"}\n")
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

    def _document(self, path: str) -> web.Response:
        if path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        if path == "/metrics":
            return web.Response(text=self.metrics)
        if path == "/version":
            major, minor, _ = self.version.removeprefix("v").split(".")
            return _json({"major": major, "minor": minor, "gitVersion": self.version})
        parts = path.strip("/").split("/")
        served = [kind.resource for kind in self.store.kinds.values()]
        if path == "/apis":
            groups = sorted({one.group for one in served if one.group})
            return _json({"kind": "APIGroupList", "groups": [self._group(group, served) for group in groups]})
        if parts[0] == "apis" and len(parts) == 2 and any(one.group == parts[1] for one in served):
            return _json({"kind": "APIGroup", **self._group(parts[1], served)})
        group, version = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else [*parts, "", ""][1:3]
        found = [one for one in served if (one.group, one.version) == (group, version)]
        if not found:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        listed = [{"name": one.plural, "kind": one.kind, "namespaced": one.namespaced} for one in found]
        return _json({"kind": "APIResourceList", "groupVersion": found[0].api_version, "resources": listed})

    def _group(self, group: str, served: list[Resource]) -> JsonObject:
        versions = [one.api_version for one in served if one.group == group]
        listed = [{"groupVersion": one, "version": one.split("/")[-1]} for one in dict.fromkeys(versions)]
        return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _verb(request: web.Request, name: str) -> str:
    if request.method == "GET":
        if request.query.get("watch") in ("1", "true"):
            return "watch"
        return "get" if name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(request.method, request.method)


def _after(refusal: Refusal) -> int:
    return integer(refusal.status, "details", "retryAfterSeconds")


def _json(said: JsonObject) -> web.Response:
    return web.Response(body=to_json(said), content_type="application/json")


@asynccontextmanager
async def fake_kube(**options: object) -> AsyncIterator[FakeKube]:
    """A fake API server while the block runs. options: those of `FakeKube`."""
    kube = FakeKube(**options)  # type: ignore[arg-type]
    await kube.start()
    try:
        yield kube
    finally:
        await kube.stop()
