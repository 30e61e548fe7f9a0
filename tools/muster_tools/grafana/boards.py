"""Compact definitions of dashboards, and the JSON that Grafana reads (`write.py` writes the files).

A board is rows of panels; a panel is a title, one sentence on how to read it, and queries with their legends. Layout,
ids and colors follow from the order, so that a change of one query is a change of one line in the JSON.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "compose" / "grafana" / "dashboards"
WIDTH = 24
HEIGHT = 8
RATE = "[$__rate_interval]"
Json = dict[str, object]
DATASOURCE: Json = {"type": "prometheus", "uid": "prometheus"}


@dataclass(frozen=True)
class Panel:
    """One picture. queries: (PromQL, legend). unit: Grafana's name. kind: timeseries, stat, bargauge or table.

    stacked: areas on top of each other. exemplars: show those of the histogram, each leads to a trace.
    """

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False
    exemplars: bool = False

    def model(self, number: int, *, x: int, y: int, width: int) -> Json:
        """Return the panel as Grafana stores it."""
        is_series = self.kind == "timeseries"
        targets = [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": expr,
                "legendFormat": legend,
                "range": is_series,
                "instant": not is_series,
                "exemplar": self.exemplars,
            }
            for index, (expr, legend) in enumerate(self.queries)
        ]
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0, "custom": self._custom()}, "overrides": []},
            "options": self._options(),
            "targets": targets,
        }

    def _custom(self) -> Json:
        if self.kind != "timeseries":
            return {}
        mode = "normal" if self.stacked else "none"
        return {
            "fillOpacity": 20 if self.stacked else 5,
            "stacking": {"mode": mode, "group": "A"},
            "showPoints": "never",
        }

    def _options(self) -> Json:
        if self.kind == "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "orientation": "auto"}


@dataclass(frozen=True)
class Board:
    """One dashboard. rows: panels side by side, of equal width. variables: (name, label, PromQL of its values)."""

    name: str
    title: str
    description: str
    rows: Sequence[Sequence[Panel]]
    variables: Sequence[tuple[str, str, str]] = ()

    def model(self) -> Json:
        """Return the board as Grafana stores it."""
        return {
            "uid": f"muster-{self.name}",
            "title": self.title,
            "description": self.description,
            "tags": ["muster"],
            "schemaVersion": 41,
            "editable": False,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "graphTooltip": 1,
            "links": [
                {"type": "dashboards", "tags": ["muster"], "title": "Muster", "asDropdown": True, "keepTime": True}
            ],
            "templating": {"list": [self._variable(*one) for one in self.variables]},
            "panels": list(self._panels()),
        }

    def _panels(self) -> Iterator[Json]:
        number = 0
        for level, row in enumerate(self.rows):
            width = WIDTH // len(row)
            for place, panel in enumerate(row):
                number += 1
                yield panel.model(number, x=place * width, y=level * HEIGHT, width=width)

    def _variable(self, name: str, label: str, query: str) -> Json:
        return {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def quantiles(histogram: str, *, by: str = "", matching: str = "") -> list[tuple[str, str]]:
    """Median and 99th percentile of a histogram. by: a label that tells the lines apart."""
    labels = f"le, {by}" if by else "le"
    prefix = f"{{{{{by}}}}} " if by else ""
    return [
        (f"histogram_quantile({q}, sum by ({labels}) (rate({histogram}_bucket{matching}{RATE})))", f"{prefix}p{name}")
        for q, name in ((0.5, "50"), (0.99, "99"))
    ]


def text_of(board: Board) -> str:
    """Return the file's content."""
    return json.dumps(board.model(), indent=2, ensure_ascii=False) + "\n"
