"""Rules as values: what a code means on a GPU model, and what repeated codes amount to. `rule_files.py` reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from muster.schemas.facts.health import FaultClass, FaultScope
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import NodeAction

RUNNING_BY_CLASS = {
    FaultClass.NOTE: RunningJobs.FINISH,
    FaultClass.APPLICATION: RunningJobs.FINISH,
    FaultClass.DEGRADED: RunningJobs.FINISH,
    FaultClass.FATAL: RunningJobs.REQUEUE,
}
"""What becomes of jobs on hardware with such a fault, where the rule says nothing else."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one code means. code: may end in `*`. for_s: how long a page must show a lasting fault before it is one.

    burst_s: the same code on the same device within it is one fault. clears: codes whose fault this one ends.
    least: of codes that stand for a measurement (`gpu-hot`), from which value on. store_only: it is recorded alone.
    """

    code: str
    fault_class: FaultClass
    scope: FaultScope = FaultScope.DEVICE
    action: NodeAction | None = None
    running: RunningJobs = RunningJobs.FINISH
    for_s: float = 0.0
    burst_s: float = 60.0
    clears: tuple[str, ...] = ()
    least: float | None = None
    because: str = ""
    store_only: bool = False


@dataclass(frozen=True, slots=True)
class Escalation:
    """Faults that together mean more than each: the fault `code` is then observed, by the rule of that code.

    codes, classes: which observations count (either matches). per: those of one device, or of the whole node.
    times, teams, devices: so many of them, of so many different teams, on so many devices, within `within_s`.
    """

    code: str
    within_s: float
    codes: tuple[str, ...] = ()
    classes: tuple[FaultClass, ...] = ()
    per: FaultScope = FaultScope.DEVICE
    times: int = 1
    teams: int = 0
    devices: int = 0

    def counts(self, code: str, fault_class: FaultClass) -> bool:
        """Whether an observation is one of those that it counts."""
        if fault_class in self.classes:
            return code != self.code
        return any(fnmatchcase(code, pattern) for pattern in self.codes)


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Rules of the models that match one of `models` (shell patterns over what the exporter prints)."""

    models: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    origin: str = ""


@dataclass(slots=True)
class RuleBook:
    """All rules, least special first: of two sets that match a model, what the later one says of a code counts."""

    sets: tuple[ModelRules, ...] = ()
    _tables: dict[str, "RuleTable"] = field(default_factory=dict)

    def of(self, model: str) -> "RuleTable":
        """What holds for one model; the same table each time."""
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
        """The rule of a code: its own, else the longest pattern that matches. None: nobody says what it means."""
        try:
            return self._found[code]
        except KeyError:
            rule = self.rules.get(code)
            if rule is None:
                matching = (one for one in self._patterns if code.startswith(one.code[:-1]))
                rule = max(matching, key=lambda one: len(one.code), default=None)
            self._found[code] = rule
            return rule
