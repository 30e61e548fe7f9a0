"""Print the state and the rules of the health service, and send requests to it."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import JsonValue

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import usage
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call
from muster.health.core.rules import Rule, RuleBook
from muster.health.rule_files import RulesError, load_rules
from muster.schemas.conditions import Condition, ConditionsAnswer

CONDITIONS = ("NODE", "DEVICE", "PHASE", "SINCE", "TRY", "DOES", "FAULTS", "BECAUSE")
MARKS = ("SEEN", "CODE", "CLASS", "DEVICE", "TIMES", "TEAMS")
ENDED = ("NODE", "DEVICE", "FAULTS", "BEGAN", "LASTED_S", "TRIES")
ENDED_SHOWN = 10

RULES = ("CODE", "CLASS", "SCOPE", "ACTION", "JOBS", "FOR_S", "BECAUSE")


def report(state_dir: Path, form: Output, *, cluster: str) -> None:
    """List unhealthy nodes and GPUs. Raises CliError."""
    _print(call(state_dir, lambda muster: muster.conditions(cluster=cluster)), form)


def report_node(state_dir: Path, node: str, form: Output, *, cluster: str) -> None:
    """Show one node. Raises CliError."""
    answer = call(state_dir, lambda muster: muster.condition(node, cluster=cluster))
    if output.emitted(answer, form):
        return
    now_ns = SystemTime().wall()
    if answer.conditions:
        output.table(CONDITIONS, condition_rows(answer.conditions, now_ns=now_ns), right=("TRY",))
    else:
        print_line(f"{node} is healthy")
    if answer.opted_out:
        print_line("faults are only recorded: health takes no action on this node")
    if answer.marks:
        output.table(MARKS, mark_rows(answer, now_ns=now_ns), right=("TIMES",))


def verify(state_dir: Path, node: str, form: Output, *, trust: bool, reason: str, cluster: str) -> None:
    """Request the verification of a node. Raises CliError."""
    answer = call(state_dir, lambda muster: muster.verify(node, trust=trust, reason=reason, cluster=cluster))
    if output.emitted(answer, form):
        return
    phases = ", ".join(dict.fromkeys(one.phase.value for one in answer.conditions)) or "healthy"
    print_line(f"{node} {phases}")


def reset_brake(state_dir: Path, form: Output, *, skip: bool, reason: str, cluster: str) -> None:
    """Reset the safety brake. Raises CliError."""
    _print(call(state_dir, lambda muster: muster.reset_brake(skip=skip, reason=reason, cluster=cluster)), form)


def _print(answer: ConditionsAnswer, form: Output) -> None:
    if output.emitted(answer, form):
        return
    now_ns = SystemTime().wall()
    for line in summary(answer):
        print_line(line)
    if answer.conditions:
        output.table(CONDITIONS, condition_rows(answer.conditions, now_ns=now_ns), right=("TRY",))
    if answer.ended:
        output.table(ENDED, ended_rows(answer, now_ns=now_ns), right=("LASTED_S", "TRIES"))


def summary(answer: ConditionsAnswer) -> Iterable[str]:
    """Return the counts by state, and the state of the brake."""
    sick = {one.node for one in answer.conditions}
    yield f"{answer.nodes - len(sick)} of {answer.nodes} nodes healthy" + (", dry run" if answer.dry_run else "")
    waiting = sum(one.needs_person for one in answer.conditions)
    if waiting:
        yield f"{waiting} wait for a person: look after them, then muster health verify NODE"
    brake = answer.brake
    if brake.tripped is not None:
        yield f"brake tripped: {brake.tripped.because}; muster health brake reset"
    else:
        yield f"brake: {brake.nodes} of {brake.most} nodes that may be suspected within {brake.window_s:g} s"


def condition_rows(conditions: Iterable[Condition], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per node or device."""
    for one in conditions:
        does = "waits for a person" if one.needs_person else one.action or ""
        codes = ", ".join(dict.fromkeys(fault.told.code for fault in one.faults))
        device = one.name if one.kind == "device" else ""
        since = moments.distance(one.since, now_ns=now_ns)
        yield one.node, device, one.phase.value, since, str(one.attempt), does, codes, one.because


def mark_rows(answer: ConditionsAnswer, *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per observation, newest first."""
    for mark in answer.marks:
        seen = moments.distance(mark.at, now_ns=now_ns)
        yield seen, mark.code, mark.fault_class.value, mark.device, str(mark.count), ", ".join(mark.teams)


def ended_rows(answer: ConditionsAnswer, *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per past fault, newest first."""
    for one in answer.ended[:ENDED_SHOWN]:
        lasted_s = (one.ended_at - one.began_at) / 1e9
        device = one.name if one.kind == "device" else ""
        began = moments.distance(one.began_at, now_ns=now_ns)
        yield one.node, device, ", ".join(one.codes), began, f"{lasted_s:.0f}", str(one.attempts)


def show_rules(model: str, path: Path | None, form: Output) -> None:
    """List the rules of a GPU model. Raises CliError."""
    rules = sorted(_load(path).of(model).rules.values(), key=lambda rule: (rule.fault_class, rule.code))
    if form is Output.JSON:
        output.emit_json([_fields(rule) for rule in rules])
        return
    output.table(RULES, (tuple(map(str, _fields(rule).values())) for rule in rules), right=("FOR_S",))


def check_rules(path: Path) -> None:
    """Validate rules. Raises CliError that names the place."""
    if not path.exists():
        raise usage(f"{path}: no such file or directory; give a file, or a directory of *.yaml files")
    book = _load(path)
    own = [one for one in book.sets if one.origin.startswith(str(path))]
    count = sum(len(one.rules) for one in own)
    print_line(f"{path}: {count} rules and {sum(len(one.escalations) for one in own)} escalations, valid")


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
