"""Settings of the telemetry service: which exporters it asks, how often, and what it calls idle."""

from string import Formatter
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

EXPORTER_URL = "http://{address}:9400/metrics"
"""Where dcgm-exporter answers on a node whose network its pod shares."""
_PLACES = frozenset({"node", "address"})


class TelemetrySettings(BaseModel):
    """enabled: pages are scraped at all. url: of a node's page, with {node} and {address} filled in; "": of the
    stack's own exporters on a simulated cluster, port 9400 of the node's address on a real one. interval_s: between two
    readings of a node. timeout_s: of one. stale_s: an exporter that says the same for so long is taken for stale.
    idle_below_pct: a GPU whose utilisation and SM activity are at or below it does nothing. idle_after_s: a held GPU
    that does nothing for so long is listed. report_s: between two facts of what a running job used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    url: str = ""
    interval_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    stale_s: Annotated[float, Field(gt=0)] = 120.0
    idle_below_pct: Annotated[float, Field(ge=0, le=100)] = 1.0
    idle_after_s: Annotated[float, Field(ge=0)] = 600.0
    report_s: Annotated[float, Field(ge=1)] = 600.0

    @field_validator("url")
    @classmethod
    def _places_are_known(cls, url: str) -> str:
        if not url:
            return url
        named = {name for _, name, _, _ in Formatter().parse(url) if name is not None}
        if not url.startswith(("http://", "https://")) or not named or not named <= _PLACES:
            raise ValueError(f"url: {url!r}: write http://HOST:PORT/PATH with {{node}} or {{address}} in it")
        return url
