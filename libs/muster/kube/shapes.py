"""Options of requests to an API server."""

from dataclasses import dataclass
from enum import StrEnum

from muster.kube.objects import JsonObject


class Patch(StrEnum):
    """Type of a patch: its media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(StrEnum):
    """Effect of a deletion on the object's dependents."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class Writing:
    """Options of a change."""

    field_manager: str = ""
    """Owner of the fields, required by `Patch.APPLY`."""
    force: bool = False
    """Take over fields of other owners."""
    dry_run: bool = False
    """Validate, but change nothing."""
    strict: bool = False
    """Refuse unknown fields instead of dropping them."""

    def query(self) -> dict[str, str]:
        """Return the query parameters."""
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
    """Selects objects of a kind; `labels` and `fields` are selectors as in `kubectl -l` and `--field-selector`."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """Return the query parameters."""
        query: dict[str, str] = {}
        if self.labels:
            query["labelSelector"] = self.labels
        if self.fields:
            query["fieldSelector"] = self.fields
        return query


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `continue_token` is "" on the last page; `version` is that of the whole list."""

    items: list[JsonObject]
    version: str
    continue_token: str
    remaining: int
