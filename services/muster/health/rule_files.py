"""Read and validate rules from YAML, and convert them to the core's values. Muster's own are in `rules/`."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from muster.core.yaml_text import YamlLimits, YamlTextError, yaml_value
from muster.health.core.rules import RUNNING_BY_CLASS, Code, Escalation, Meaning, ModelRules, Rule, RuleBook, RuleTable
from muster.schemas.facts.health import FaultScope
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import NodeAction

RULES_MAX = 1_000
LIMITS = YamlLimits(characters=1024 * 1024)
BUILT_IN = "muster.health"

ACTIONS = {None: 0, NodeAction.RESET: 1, NodeAction.REBOOT: 2, NodeAction.REPLACE: 3}


class RulesError(ValueError):
    """Rules cannot be used; the message names file and place, and what to do."""


class RuleEntry(Meaning):
    """One rule as written."""

    codes: Annotated[tuple[Code, ...], Field(min_length=1, max_length=100)]
    """Codes with the same meaning."""
    action: str = "none"
    """None, reset, reboot or replace."""
    running: RunningJobs | None = None

    @model_validator(mode="after")
    def _fits(self) -> "RuleEntry":
        action = action_of(self.action)
        if not self.fault_class.is_hardware:
            if action is not None:
                raise ValueError(
                    f"class {self.fault_class.value}: nothing is done to hardware for it; leave out `action`"
                )
            if self.running not in (None, RunningJobs.FINISH):
                raise ValueError(f"class {self.fault_class.value}: jobs are left alone; leave out `running`")
        if self.scope is FaultScope.DEVICE and ACTIONS[action] > ACTIONS[NodeAction.RESET]:
            raise ValueError(f"action {self.action} is done to a node; say `scope: node`")
        return self


class RulesFile(BaseModel):
    """One file: the rules of GPU models whose names match one of `models` (shell patterns, any case)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Annotated[int, Field(ge=1, le=1)]
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=50)]
    rules: Annotated[tuple[RuleEntry, ...], Field(max_length=RULES_MAX)] = ()
    escalations: Annotated[tuple[Escalation, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _says_each_once(self) -> "RulesFile":
        codes = [code for rule in self.rules for code in rule.codes]
        twice = sorted({code for code in codes if codes.count(code) > 1})
        if twice:
            raise ValueError(f"said twice: {', '.join(twice)}; keep one rule for each code")
        return self


def action_of(text: str) -> NodeAction | None:
    """Return the repair of this name. Raises ValueError."""
    if text == "none":
        return None
    if text not in (NodeAction.RESET, NodeAction.REBOOT, NodeAction.REPLACE):
        raise ValueError(f"action {text!r} is none of none, reset, reboot, replace")
    return NodeAction(text)


def read_rules(text: str, *, origin: str) -> ModelRules:
    """Return the rules of one file. Raises RulesError that names the place."""
    try:
        parsed = RulesFile.model_validate(yaml_value(text, LIMITS))
    except YamlTextError as error:
        raise RulesError(f"{origin}: {error}") from error
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors()[:5])
        raise RulesError(f"{origin}: {told}") from error
    return ModelRules(
        models=parsed.models,
        rules=tuple(rule for entry in parsed.rules for rule in _rules_of(entry)),
        escalations=parsed.escalations,
        origin=origin,
    )


def built_in_rules() -> RuleBook:
    """Return the built-in rules. Raises RulesError if the package is damaged."""
    folder = resources.files(BUILT_IN) / "rules"
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return book_of(read_rules(one.read_text(), origin=one.name) for one in files)


def load_rules(path: Path | None) -> RuleBook:
    """Return the built-in rules, overridden by those of a file, or of a folder's *.yaml in order. Raises RulesError."""
    if path is None:
        return built_in_rules()
    try:
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        own = [read_rules(one.read_text(), origin=str(one)) for one in files]
    except OSError as error:
        raise RulesError(f"health.rules: {path}: {error.strerror}") from error
    if not own:
        raise RulesError(f"health.rules: {path} has no *.yaml")
    return book_of((*built_in_rules().sets, *own))


def book_of(sets: Iterable[ModelRules]) -> RuleBook:
    """Return all rules: those for every model first, then those for some models, otherwise in the given order.

    Raises RulesError for an escalation to a code without a rule.
    """
    ordered = tuple(sorted(sets, key=lambda one: "*" not in one.models))
    known = RuleTable({rule.code: rule for one in ordered for rule in one.rules}, ())
    for one in ordered:
        for escalation in one.escalations:
            if known.rule(escalation.code) is None:
                raise RulesError(f"{one.origin}: escalation {escalation.code}: no rule says what that is; add one")
    return RuleBook(ordered)


def _rules_of(entry: RuleEntry) -> Iterable[Rule]:
    meaning = {name: getattr(entry, name) for name in Meaning.model_fields}
    running = entry.running or RUNNING_BY_CLASS[entry.fault_class]
    for code in entry.codes:
        yield Rule(code=code, action=action_of(entry.action), running=running, **meaning)
