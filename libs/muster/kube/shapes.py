"""What requests to an API server are made of."""

from dataclasses import dataclass
from enum import StrEnum

from muster.kube.objects import JsonObject


class Patch(StrEnum):
    """How a patch is meant: its media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(StrEnum):
    """What a deletion does to what the object owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class Writing:
    """How a change is made. field_manager: who owns the fields, required by `Patch.APPLY`; force: take others' too.

    dry_run: the server checks everything and keeps nothing. strict: unknown fields are refused instead of dropped.
    """

    field_manager: str = ""
    force: bool = False
    dry_run: bool = False
    strict: bool = False

    def query(self) -> dict[str, str]:
        """As parameters of the request."""
        query: dict[str, str] = {}
        if self.field_manager:
            query["fieldManager"] = self.field_manager
        if self.force:
            query["force"] = "true"
        if self.dry_run:
            query["dryRun"] = "All"
        if self.strict:
            query["fieldValidation"] = "Strict"
        return query


PLAIN = Writing()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind. labels, fields: selectors as `kubectl -l` and `--field-selector` take them."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """As parameters of the request."""
        query: dict[str, str] = {}
        if self.labels:
            query["labelSelector"] = self.labels
        if self.fields:
            query["fieldSelector"] = self.fields
        return query


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. continue_token: of the next one, "" after the last; version: of the whole list."""

    items: list[JsonObject]
    version: str
    continue_token: str
    remaining: int
