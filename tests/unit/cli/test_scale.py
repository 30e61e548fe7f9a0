"""`muster scale`."""

import json

import pytest

from muster.cli import scaling
from muster.cli.main import run
from muster.core.instant import NS_PER_S
from muster.schemas.facts.scale import Alternative
from muster.schemas.queries import ScaleChoiceView
from unit.cli.fake_muster import FakeMuster

NOW = 1_800_000_000 * NS_PER_S
TAKEN = Alternative(what="2 GPUs on n1", fits=True, chosen=True, gpus=2, watts=700, ready_s=50)
LEFT = Alternative(what="a node of plain", fits=True, nodes=1, watts=2_000, ready_s=600, detail="slower")


def choice(name: str = "gpu-attach-chosen", **rest: object) -> ScaleChoiceView:
    known: dict[str, object] = {"id": "s000001", "cluster": "c", "case": 1, "node": "n1", "device_model": "H100"}
    told: dict[str, object] = {"count": 2, "jobs": ("JOB",), "reason": "2 GPUs do", "alternatives": (TAKEN, LEFT)}
    return ScaleChoiceView.model_validate({**known, **told, "name": name, **rest})


def test_choices_are_a_table_with_the_reason(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.choices = [choice()]
    assert run(["scale"]) == 0
    told = capsys.readouterr().out
    assert "attach 2 x H100" in told
    assert "2 GPUs do" in told
    assert "a node of plain" not in told


@pytest.mark.parametrize("arguments", [["s000001"], ["-v"]])
def test_one_choice_or_all_in_full_show_what_else_was_looked_at(
    muster: FakeMuster, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    muster.choices = [choice()]
    assert run(["scale", *arguments]) == 0
    told = capsys.readouterr().out
    assert "a node of plain" in told
    assert "1: a node is needed" in told


def test_json_has_the_alternatives(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.choices = [choice(), choice(id="s000002")]
    assert run(["scale", "-o", "json", "--limit", "1"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["alternatives"][1]["detail"] == "slower"
    assert run(["scale", "s000002", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "s000002"


def test_an_unknown_choice_is_refused(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.choices = [choice()]
    assert run(["scale", "s000009"]) == 3
    assert "ID" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("view", "what"),
    [
        (choice(), "attach 2 x H100"),
        (choice("gpu-remove-chosen", devices=("a", "b", "c")), "return 3 x H100"),
        (choice("node-add-chosen"), "add a node"),
        (choice("node-remove-chosen"), "remove the node"),
        (choice("nothing-chosen"), "nothing"),
    ],
)
def test_what_was_chosen_is_said_in_words(view: ScaleChoiceView, what: str) -> None:
    assert scaling.what(view) == what


def test_a_choice_tells_for_whom_and_how_far_it_is() -> None:
    at = NOW - 60 * NS_PER_S
    views = [
        choice(at=at, jobs=("A", "B", "C")),
        choice(at=at, ended_at=NOW - 20 * NS_PER_S, outcome="done"),
        choice("nothing-chosen", node="", group="elastic", jobs=()),
    ]
    rows = [row[4:7] for row in scaling.choice_rows(views, now_ns=NOW)]
    assert rows == [
        ("n1", "A,B and 1 more", "in progress for 1 min"),
        ("n1", "JOB", "done in 40 s"),
        ("elastic", "", ""),
    ]


def test_alternatives_tell_which_was_taken_and_what_each_costs() -> None:
    assert list(scaling.alternative_rows([TAKEN, LEFT], case=1)) == [
        ("*", "2 GPUs on n1", "yes", "2", "0", "+700", "50", ""),
        ("", "a node of plain", "yes", "0", "1", "+2000", "600", "slower"),
    ]


@pytest.mark.parametrize(("case", "told"), [(1, "+60"), (2, "+60"), (3, "-60"), (4, "-60")])
def test_what_is_saved_when_scaling_down_is_shown_as_less_power(case: int, told: str) -> None:
    assert scaling.watts(60.0, case=case) == told
    assert scaling.watts(0.0, case=case) == "+0"
