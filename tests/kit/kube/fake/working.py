"""What the fake API server does for a request that is no watch."""

import itertools
from collections.abc import Callable, Mapping

from pydantic_core import to_json

from kit.kube.fake.asked import Asked
from kit.kube.fake.bearers import Bearer, reviewed
from kit.kube.fake.faults import Faults
from kit.kube.fake.patches import json_patched, merged, strategic
from kit.kube.fake.selectors import matcher
from kit.kube.fake.store import PARTIAL, Refusal, Store, Stored
from muster.kube.objects import JsonObject, is_object, mapping, name_of, objects, text, truth
from muster.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, TOKEN_REVIEWS, Resource


class Worker:
    """Works on a store. on_bind: told of every pod that was bound."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        on_bind: list[Callable[[JsonObject], None]],
        bearers: Mapping[str, Bearer],
    ) -> None:
        self._store = store
        self._faults = faults
        self._on_bind = on_bind
        self._bearers = bearers
        self._pages: dict[str, tuple[int, list[Stored]]] = {}
        self._tokens = itertools.count(1)

    def forget_pages(self) -> None:
        """Continue tokens are 410 from now on."""
        self._pages.clear()

    def work(self, asked: Asked) -> tuple[int, bytes | JsonObject]:
        if asked.verb == "list":
            return 200, self._list(asked)
        if asked.verb == "create" and asked.subresource:
            return 201, self._act(asked)
        if asked.verb == "create":
            made = self._create(asked)
            return 201, {**PARTIAL, "metadata": made["metadata"]} if asked.metadata_only else made
        if asked.verb == "delete":
            return 200, self._delete(asked)
        stored = None
        if asked.verb == "get":
            stored = self._store.stored(asked.resource, asked.name, asked.namespace)
            return 200, stored.json(metadata_only=asked.metadata_only)
        if asked.subresource not in ("", "status"):
            raise Refusal(404, "NotFound", f"{asked.title} is not served")
        status = asked.subresource == "status"
        body = asked.obj() if asked.verb == "update" else self._patched(asked)
        return 200, self._store.replace(
            asked.resource, asked.name, body, asked.namespace, status=status, dry_run=asked.dry_run
        )

    def _patched(self, asked: Asked) -> JsonObject:
        media = asked.request.content_type
        applies = media == "application/apply-patch+yaml"
        old = self._store.find(asked.resource, asked.name, asked.namespace)
        if old is None and applies and not asked.subresource:
            self._store.create(asked.resource, asked.obj(), asked.namespace)
        old = self._store.get(asked.resource, asked.name, asked.namespace)
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
            allowed = not self._faults.forbids(text(wanted, "verb"), f"{plural}.{group}" if group else plural)
            return {**asked.obj(), "status": {"allowed": allowed}}
        if asked.resource == TOKEN_REVIEWS:
            return {**asked.obj(), "status": reviewed(mapping(asked.obj(), "spec"), self._bearers)}
        made = self._store.create(asked.resource, asked.obj(), asked.namespace, dry_run=asked.dry_run)
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
                self._store.register(resource, has_status="status" in mapping(version, "subresources"))
        conditions = [{"type": "Established", "status": "True"}]
        self._store.replace(
            CUSTOM_RESOURCE_DEFINITIONS, name_of(definition), {"status": {"conditions": conditions}}, status=True
        )

    def _act(self, asked: Asked) -> JsonObject:
        success: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        if asked.resource == PODS and name_of(asked.obj()) != asked.name:
            kind = "Binding" if asked.subresource == "binding" else "Eviction"
            raise Refusal(400, "BadRequest", f"name in URL does not match name in {kind} object")
        if asked.resource == PODS and asked.subresource == "binding":
            self._store.bind(asked.name, asked.namespace, asked.obj(), dry_run=asked.dry_run)
            for told in self._on_bind:
                told(self._store.get(PODS, asked.name, asked.namespace))
            return success
        if asked.resource == PODS and asked.subresource == "eviction":
            self._evict(asked)
            return success
        raise Refusal(404, "NotFound", f"{asked.title} is not served")

    def _evict(self, asked: Asked) -> None:
        self._store.get(PODS, asked.name, asked.namespace)
        if asked.name in self._faults.protected:
            cause = {"reason": "DisruptionBudget", "message": "The disruption budget needs 1 healthy pods and has 1"}
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise Refusal(429, "TooManyRequests", message, causes=[cause])
        options = mapping(asked.obj(), "deleteOptions")
        grace = options.get("gracePeriodSeconds")
        self._store.delete(
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
        left = self._store.delete(
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
            version, left = self._store.version, self._selected(asked)
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
        if version.isdecimal() and int(version) > self._store.version:
            raise Refusal(504, "Timeout", f"Too large resource version: {version}, current: {self._store.version}",
                          retryAfterSeconds=1, causes=[{"reason": "ResourceVersionTooLarge"}])  # fmt: skip
        matches = self.matcher(asked)
        return [one for one in self._store.listed(asked.resource, asked.namespace) if matches(one.obj)]

    def matcher(self, asked: Asked) -> Callable[[JsonObject], bool]:
        try:
            return matcher(asked.query.get("labelSelector", ""), asked.query.get("fieldSelector", ""))
        except ValueError as error:
            raise Refusal(400, "BadRequest", str(error)) from error
