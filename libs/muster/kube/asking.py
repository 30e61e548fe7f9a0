"""What a request to an API server is about, made into one."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.kube import bounds
from muster.kube.errors import Asked
from muster.kube.objects import JsonObject, text
from muster.kube.resources import Resource
from muster.kube.transport import JSON, Request


@dataclass(frozen=True, slots=True)
class Where:
    """What a request is about."""

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
        """verb: of RBAC, which is what a refusal must name."""
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
