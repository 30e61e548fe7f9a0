"""`muster health`: what people read, and rules that are checked without a stack."""

from pathlib import Path

import pytest

from muster.cli import health_reports
from muster.cli.errors import ExitCode
from muster.cli.main import run
from muster.health.rule_files import RulesError, load_rules, read_rules
from muster.schemas.conditions import BrakeView, Condition, ConditionsAnswer
from muster.schemas.facts.health import BrakeTripped, HealthPhase

SICK = Condition(kind="node", name="gpu-1", node="gpu-1", phase=HealthPhase.QUARANTINED, needs_person=True)
TRIPPED = BrakeTripped(nodes=4, most=3, fleet=20, window_s=600.0, because="4 of 20 nodes would be suspected")


def rules(text: str) -> str:
    return f'version: 1\nmodels: ["*"]\nrules:\n  - {text}\n'


def test_people_read_how_many_are_well_and_what_waits_for_them() -> None:
    lines = list(
        health_reports.summary(ConditionsAnswer(nodes=20, conditions=(SICK,), brake=BrakeView(tripped=TRIPPED)))
    )
    assert lines[0] == "19 of 20 nodes healthy"
    assert "muster health verify" in lines[1]
    assert "4 of 20 nodes would be suspected; muster health brake reset" in lines[2]


def test_rules_that_are_good_are_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.yaml").write_text(rules("{codes: [xid-31], class: degraded, because: Here it is the board.}"))
    assert run(["health", "rules", "check", str(tmp_path)]) == 0
    assert "1 rules and 0 escalations" in capsys.readouterr().out


def test_own_rules_stand_over_the_built_in_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(rules("{codes: [xid-31], class: degraded, because: Here it is the board.}"))
    own, plain = load_rules(path).of("H100").rule("xid-31"), load_rules(None).of("H100").rule("xid-31")
    assert own is not None
    assert plain is not None
    assert (own.fault_class, plain.fault_class) == ("degraded", "application")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{codes: [xid-31], class: application, action: reboot, because: x}", "nothing is done to hardware"),
        ("{codes: [xid-31], class: application, running: requeue, because: x}", "jobs are left alone"),
        ("{codes: [xid-48], class: fatal, action: reboot, because: x}", "say `scope: node`"),
        ("{codes: [xid-48], class: fatal, action: explode, because: x}", "none of none, reset, reboot, replace"),
        ("{codes: [xid-48], class: deadly, because: x}", "class"),
        ("{codes: [xid-48, xid-48], class: fatal, because: x}", "said twice: xid-48"),
        ("{codes: [XID 48], class: fatal, because: x}", "codes"),
        ("{codes: [xid-48], class: fatal, because: x, colour: red}", "colour"),
        ("{codes: [xid-48], class: fatal}", "because"),
    ],
)
def test_rules_that_cannot_be_are_refused_and_say_where(text: str, complaint: str) -> None:
    with pytest.raises(RulesError, match=complaint):
        read_rules(rules(text), origin="own.yaml")


def test_an_escalation_to_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text('version: 1\nmodels: ["*"]\nescalations: [{code: odd, codes: [xid-31], times: 2, within_s: 60}]\n')
    with pytest.raises(RulesError, match="no rule says what that is"):
        load_rules(path)


def test_one_observation_is_no_repetition() -> None:
    text = 'version: 1\nmodels: ["*"]\nescalations: [{code: lemon, codes: [xid-31], within_s: 60}]\n'
    with pytest.raises(RulesError, match="no repetition"):
        read_rules(text, origin="own.yaml")


def test_a_file_that_is_not_there_is_a_mistake_of_use(tmp_path: Path) -> None:
    assert run(["health", "rules", "check", str(tmp_path / "none.yaml")]) == ExitCode.USAGE
