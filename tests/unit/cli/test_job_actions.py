"""`muster hold`, `muster release`, `muster requeue` and `muster priority`."""

import json

import pytest

from muster.cli.main import run
from muster.schemas.job import Phase
from muster.schemas.views import JobView
from unit.cli.fake_muster import FakeMuster

ONE, TWO = "A" * 26, "B" * 26


@pytest.fixture(autouse=True)
def jobs(muster: FakeMuster) -> None:
    for ident, held in ((ONE, False), (TWO, True)):
        muster.jobs[ident] = JobView(
            id=ident, name="train", team="blue", principal="ann", queue="blue", phase=Phase.QUEUED, held=held
        )


@pytest.mark.parametrize("command", ["cancel", "hold", "release", "requeue"])
def test_several_jobs_are_canceled_held_released_and_requeued_by_one_command(
    muster: FakeMuster, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, ONE, TWO, "--reason", "wrong data"]) == 0
    assert muster.asked_of_jobs == [(command, ONE, "wrong data"), (command, TWO, "wrong data")]
    assert capsys.readouterr().out == f"{ONE}: {command} requested, was queued\n{TWO}: {command} requested, was held\n"


def test_a_priority_is_asked_for_and_the_old_one_is_told(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["priority", ONE, "90", "--reason", "urgent"]) == 0
    assert muster.asked_of_jobs == [("priority 90", ONE, "urgent")]
    assert capsys.readouterr().out == f"{ONE}: priority 90 requested, had 50, was queued\n"


@pytest.mark.parametrize(
    "arguments", [["hold"], ["release"], ["requeue"], ["priority", ONE], ["priority", ONE, "1001"]]
)
def test_what_is_missing_or_out_of_range_is_a_mistake_of_usage(muster: FakeMuster, arguments: list[str]) -> None:
    assert run(arguments) == 2
    assert muster.asked_of_jobs == []


def test_the_first_refusal_is_told(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    muster.refuses = ONE
    assert run(["hold", ONE, TWO]) == 3
    assert "it runs" in capsys.readouterr().err
    assert muster.asked_of_jobs == []


def test_jobs_are_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hold", ONE, TWO, "--output", "json"]) == 0
    assert [row["held"] for row in json.loads(capsys.readouterr().out)] == [False, True]
