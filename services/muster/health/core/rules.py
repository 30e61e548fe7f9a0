"""Rules as values: the meaning of a code on a GPU model, and of repeated codes. `rule_files.py` reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from muster.schemas.base import Text
from muster.schemas.facts.health import FaultClass, FaultScope
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import NodeAction

WINDOW_S_MAX = 366 * 86_400.0
"""Longest time in a rule."""

Code = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,79}\*?$")]
Seconds = Annotated[float, Field(ge=0, le=WINDOW_S_MAX)]

RUNNING_BY_CLASS = {
    FaultClass.NOTE: RunningJobs.FINISH,
    FaultClass.APPLICATION: RunningJobs.FINISH,
    FaultClass.DEGRADED: RunningJobs.FINISH,
    FaultClass.FATAL: RunningJobs.REQUEUE,
}
"""Treatment of jobs on hardware with such a fault, unless the rule says otherwise."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Meaning(_Part):
    """The meaning of a rule's codes."""

    fault_class: Annotated[FaultClass, Field(alias="class")]
    because: Text
    scope: FaultScope = FaultScope.DEVICE
    for_s: Seconds = 0.0
    """How long a page must show a lasting fault before it is one."""
    burst_s: Seconds = 60.0
    """Within this time the same code on the same device is one fault, in seconds."""
    clears: tuple[Code, ...] = ()
    """Codes whose fault this one ends."""
    least: float | None = None
    """For codes of a measurement (`gpu-hot`): the value from which it is a fault."""
    store_only: bool = False
    """Only record the fault."""


class Rule(Meaning):
    """The meaning of one code, with all defaults."""

    model_config = ConfigDict(populate_by_name=True)

    code: str
    """May end in `*`."""
    action: NodeAction | None = None
    running: RunningJobs = RunningJobs.FINISH


class Escalation(_Part):
    """Faults that together mean more: then the fault `code` is observed, with its own rule."""

    code: Code
    within_s: Annotated[float, Field(gt=0, le=WINDOW_S_MAX)]
    codes: tuple[Code, ...] = ()
    """Codes that count."""
    classes: tuple[FaultClass, ...] = ()
    """Classes that count, too."""
    per: FaultScope = FaultScope.DEVICE
    """Whether faults of one device or of the whole node are counted together."""
    times: Annotated[int, Field(ge=1, le=100)] = 1
    """Minimum number within `within_s`."""
    teams: Annotated[int, Field(ge=0, le=16)] = 0
    """Minimum number of different teams."""
    devices: Annotated[int, Field(ge=0, le=64)] = 0
    """Minimum number of devices."""

    @model_validator(mode="after")
    def _counts_something(self) -> Self:
        if not self.codes and not self.classes:
            raise ValueError("it counts nothing: give `codes` or `classes`")
        if max(self.times, self.teams, self.devices) < 2:
            raise ValueError("one observation is no repetition: give `times`, `teams` or `devices` of at least 2")
        return self

    def counts(self, code: str, fault_class: FaultClass) -> bool:
        """Return whether an observation counts."""
        if fault_class in self.classes:
            return code != self.code
        return any(fnmatchcase(code, pattern) for pattern in self.codes)


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Rules of the models that match one of `models` (shell patterns over the exporter's model name)."""

    models: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    origin: str = ""


@dataclass(slots=True)
class RuleBook:
    """All rules, least specific first: of two sets that match a model, the later one wins."""

    sets: tuple[ModelRules, ...] = ()
    _tables: dict[str, "RuleTable"] = field(default_factory=dict)

    def of(self, model: str) -> "RuleTable":
        """Return the table for one model; the same object each time."""
        table = self._tables.get(model)
        if table is None:
            table = self._tables[model] = self._table(model)
        return table

    def _table(self, model: str) -> "RuleTable":
        rules, escalations = dict[str, Rule](), dict[str, Escalation]()
        for one in self.sets:
            if any(fnmatchcase(model.lower(), pattern.lower()) for pattern in one.models):
                rules.update((rule.code, rule) for rule in one.rules)
                escalations.update((escalation.code, escalation) for escalation in one.escalations)
        return RuleTable(rules, tuple(escalations.values()))


class RuleTable:
    """The rules of one model."""

    def __init__(self, rules: Mapping[str, Rule], escalations: tuple[Escalation, ...]) -> None:
        self.escalations = escalations
        self.rules = dict(rules)
        self._patterns = [rule for code, rule in rules.items() if code.endswith("*")]
        self._found: dict[str, Rule | None] = {}

    def rule(self, code: str) -> Rule | None:
        """Return the rule of a code: its own, else the longest pattern that matches. None: no rule covers the code."""
        try:
            return self._found[code]
        except KeyError:
            rule = self.rules.get(code)
            if rule is None:
                matching = (one for one in self._patterns if code.startswith(one.code[:-1]))
                rule = max(matching, key=lambda one: len(one.code), default=None)
            self._found[code] = rule
            return rule
