"""What the SDK's errors mean to the shell, also when they come out of a group of tasks."""

from io import StringIO
from pathlib import Path

import pytest

from muster.cli import output
from muster.cli.errors import CliError, ExitCode, usage
from muster.cli.session import as_cli_error
from muster.client import ConflictError, RefusedError, StateDirError, UnavailableError, UnreachableError
from muster.schemas.views import Problem

HERE = Path("/state")
NO = Problem(title="Refused", status=409, field="Idempotency-Key", detail="used before", cure="Use another.")


def code(error: Exception) -> ExitCode | None:
    told = as_cli_error(error, HERE)
    return told.code if told else None


def test_refusals_exit_with_3_and_name_field_and_cure() -> None:
    assert code(RefusedError(NO)) == ExitCode.REFUSED
    told = str(as_cli_error(ConflictError(NO), HERE))
    assert "Idempotency-Key" in told
    assert "Use another." in told


def test_silence_exits_with_4_and_says_how_to_start_a_stack() -> None:
    assert code(UnreachableError("nobody")) == ExitCode.UNREACHABLE
    assert "muster up --state-dir /state" in str(as_cli_error(StateDirError("no such file"), HERE))


def test_a_service_that_is_away_is_named_and_the_stack_is_not_said_to_be() -> None:
    told = as_cli_error(UnavailableError("the composer does not answer"), HERE)
    assert told is not None
    assert told.code == ExitCode.UNREACHABLE
    assert "the composer does not answer; " in str(told)
    assert "muster status --state-dir /state" in str(told)
    assert "muster up" not in str(told)


def test_an_error_inside_a_group_of_tasks_is_found() -> None:
    group = ExceptionGroup("tasks", [ValueError("other"), ExceptionGroup("inner", [RefusedError(NO)])])
    assert code(group) == ExitCode.REFUSED


def test_the_commands_own_errors_keep_their_code() -> None:
    assert code(ExceptionGroup("tasks", [usage("wrong")])) == ExitCode.USAGE


def test_a_defect_is_not_dressed_up_as_a_refusal() -> None:
    assert code(KeyError("bug")) is None


@pytest.mark.parametrize("said", ["", "n\n"])
def test_a_question_that_nobody_agrees_to_is_usage_and_names_the_option(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(said))
    with pytest.raises(CliError, match="--yes") as error:
        output.confirm("Really?")
    assert error.value.code == ExitCode.USAGE


def test_a_yes_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    output.confirm("Really?")
