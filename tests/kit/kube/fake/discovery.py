"""Documents of the fake API server that are no objects: health, version, metrics, and what is served."""

from aiohttp import web
from pydantic_core import to_json

from kit.kube.fake.store import Refusal
from muster.kube.objects import JsonObject
from muster.kube.resources import Resource


def document(path: str, served: list[Resource], *, version: str, metrics: str) -> web.Response:
    """What the server says of itself. Raises Refusal for a path that is not served."""
    if path in ("/healthz", "/readyz", "/livez"):
        return web.Response(text="ok")
    if path == "/metrics":
        return web.Response(text=metrics)
    if path == "/version":
        major, minor, _ = version.removeprefix("v").split(".")
        return _json({"major": major, "minor": minor, "gitVersion": version})
    parts = path.strip("/").split("/")
    if path == "/apis":
        groups = sorted({one.group for one in served if one.group})
        return _json({"kind": "APIGroupList", "groups": [_group(group, served) for group in groups]})
    if parts[0] == "apis" and len(parts) == 2 and any(one.group == parts[1] for one in served):
        return _json({"kind": "APIGroup", **_group(parts[1], served)})
    group, of_group = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else [*parts, "", ""][1:3]
    found = [one for one in served if (one.group, one.version) == (group, of_group)]
    if not found:
        raise Refusal(404, "NotFound", "the server could not find the requested resource")
    listed = [{"name": one.plural, "kind": one.kind, "namespaced": one.namespaced} for one in found]
    return _json({"kind": "APIResourceList", "groupVersion": found[0].api_version, "resources": listed})


def _group(group: str, served: list[Resource]) -> JsonObject:
    versions = [one.api_version for one in served if one.group == group]
    listed = [{"groupVersion": one, "version": one.split("/")[-1]} for one in dict.fromkeys(versions)]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _json(said: JsonObject) -> web.Response:
    return web.Response(body=to_json(said), content_type="application/json")
