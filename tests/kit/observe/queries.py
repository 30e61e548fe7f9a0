"""Every PromQL query that the repository ships: of dashboards, recording rules and alerts."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import yaml

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "compose" / "prometheus"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
BOARDS = sorted((ROOT / "compose" / "grafana" / "dashboards").glob("*.json"))
RATE_INTERVAL = "1m"
_LABEL_VALUES = re.compile(r"label_values\((\w+), (\w+)\)")

Json = dict[str, object]


@dataclass(frozen=True)
class Query:
    """where: file, and panel or rule."""

    where: str
    expr: str


@dataclass(frozen=True)
class Alert:
    """One alert: its rule as it is written."""

    name: str
    tier: int
    rule: Json

    def text(self, annotation: str) -> str:
        """One of its annotations, "" if there is none."""
        return cast("dict[str, str]", self.rule["annotations"]).get(annotation, "")


@cache
def rules() -> tuple[tuple[Path, Json], ...]:
    """Every rule with its file; read once, as each query of a board looks at all of them."""
    found: list[tuple[Path, Json]] = []
    for file in RULES:
        for group in cast("list[Json]", yaml.safe_load(file.read_text())["groups"]):
            found += [(file, rule) for rule in cast("list[Json]", group["rules"])]
    return tuple(found)


def alerts() -> list[Alert]:
    """Every alert."""
    return [
        Alert(str(rule["alert"]), int(file.stem.removeprefix("tier")), rule)
        for file, rule in rules()
        if "alert" in rule
    ]


@cache
def recorded() -> dict[str, set[str]]:
    """Names that recording rules make, with the labels that they give."""
    found: dict[str, set[str]] = {}
    for _, rule in rules():
        if "record" in rule:
            labels = set(cast("dict[str, str]", rule.get("labels", {}))) or {"slo"}
            found.setdefault(str(rule["record"]), set()).update(labels)
    return found


def rule_queries() -> list[Query]:
    """Expressions of all rules."""
    return [
        Query(f"{file.name}: {rule.get('alert') or rule.get('record')}", str(rule["expr"])) for file, rule in rules()
    ]


def board_queries() -> list[Query]:
    """Expressions of all panels, variables filled in, and a selector for what each variable asks."""
    found = []
    for file in BOARDS:
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            found += [Query(f"{file.name}: {panel['title']}", _filled(one["expr"])) for one in panel["targets"]]
        for variable in board["templating"]["list"]:
            match = _LABEL_VALUES.fullmatch(variable["definition"])
            assert match is not None, f"{file.name}: variable {variable['name']} asks {variable['definition']}"
            metric, label = match.groups()
            found.append(Query(f"{file.name}: variable {variable['name']}", f"sum by ({label}) ({metric})"))
    return found


def _filled(expr: str) -> str:
    return re.sub(r"\$(queue|team)\b", ".*", expr.replace("$__rate_interval", RATE_INTERVAL))
