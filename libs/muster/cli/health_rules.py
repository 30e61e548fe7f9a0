"""Rules of health for people: shown and checked without a stack."""

from pathlib import Path

from pydantic import JsonValue

from muster.cli import output
from muster.cli.errors import usage
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.health.core.rules import Rule, RuleBook
from muster.health.rule_files import RulesError, load_rules

RULES = ("CODE", "CLASS", "SCOPE", "ACTION", "JOBS", "FOR_S", "BECAUSE")


def show(model: str, path: Path | None, form: Output) -> None:
    """The rules of a model. Raises CliError."""
    rules = sorted(_load(path).of(model).rules.values(), key=lambda rule: (rule.fault_class, rule.code))
    if form is Output.JSON:
        output.emit_json([_fields(rule) for rule in rules])
        return
    output.table(RULES, (tuple(map(str, _fields(rule).values())) for rule in rules), right=("FOR_S",))


def check(path: Path) -> None:
    """Whether they can be used. Raises CliError that names the place."""
    if not path.exists():
        raise usage(f"{path}: there is no such file or folder")
    book = _load(path)
    own = [one for one in book.sets if one.origin.startswith(str(path))]
    count = sum(len(one.rules) for one in own)
    print_line(f"{path}: {count} rules and {sum(len(one.escalations) for one in own)} escalations, all good")


def _load(path: Path | None) -> RuleBook:
    try:
        return load_rules(path)
    except RulesError as error:
        raise usage(str(error)) from error


def _fields(rule: Rule) -> dict[str, JsonValue]:
    return {
        "code": rule.code,
        "class": rule.fault_class.value,
        "scope": rule.scope.value if rule.fault_class.is_hardware else "",
        "action": rule.action.value if rule.action is not None else "",
        "running": rule.running.value if rule.fault_class.is_hardware else "",
        "for_s": rule.for_s,
        "because": rule.because,
    }
