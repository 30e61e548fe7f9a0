"""One request to the fake API server, understood."""

from dataclasses import dataclass, field

from aiohttp import web

from kit.kube.fake.devices import STORED
from kit.kube.fake.store import Kind, Refusal, Store
from muster.kube.objects import JsonObject, is_object
from muster.kube.resources import Resource


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
    version: str
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
    def is_translated(self) -> bool:
        """Whether the path's version is another than what is stored."""
        return self.version != self.resource.version

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


def understood(request: web.Request, store: Store) -> Asked | None:
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
    served = store.versions.get(group, (version,))
    stored = STORED if group in store.versions else version
    kind = store.kinds.get((group, stored, rest[0])) if version in served else None
    if kind is None:
        raise Refusal(404, "NotFound", "the server could not find the requested resource")
    name, subresource = (rest[1] if len(rest) > 1 else ""), (rest[2] if len(rest) > 2 else "")
    return Asked(request, _verb(request, name), kind, namespace, name, subresource, version)


def _verb(request: web.Request, name: str) -> str:
    if request.method == "GET":
        if request.query.get("watch") in ("1", "true"):
            return "watch"
        return "get" if name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(request.method, request.method)
