"""Lists of objects: formats, sorting, columns on a narrow terminal, colors and the pager."""

import json
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import yaml

from muster.cli import layout
from muster.cli.jsonpath import STEPS_MAX, JsonPathError, parse
from muster.cli.main import run
from muster.cli.output import paged, table
from muster.cli.presentation import Color, Presentation, choose
from unit.cli.fake_muster import FakeMuster

NODES = ["gpu-01", "gpu-02"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 2
    return capsys.readouterr().err


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 40 columns and 5 lines, for `redirect_stdout`."""
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "5")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return screen


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("name", "gpu-01\ngpu-02\n"),
        ("jsonpath={.items[*].name}", "gpu-01 gpu-02\n"),
        ("jsonpath={.items[-1].name}{'\\n'}", "gpu-02\n"),
    ],
)
def test_a_list_is_printed_for_scripts(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str], form: str, expected: str
) -> None:
    assert printed(capsys, "nodes", "-o", form) == expected


def test_yaml_has_the_values_of_json(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    assert yaml.safe_load(printed(capsys, "nodes", "-o", "yaml")) == json.loads(printed(capsys, "nodes", "-o", "json"))


def test_csv_has_the_columns_of_the_wide_table_and_quotes_commas(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.node_rows[0].reason = "a, b"
    head, first, _ = printed(capsys, "nodes", "-o", "csv").splitlines()
    assert (head[:11], head[-6:]) == ("NODE,STATE,", ",GROUP")
    assert '"a, b"' in first
    assert len(printed(capsys, "nodes", "-o", "csv", "--no-headers").splitlines()) == 2


def test_a_program_gets_one_table_of_jobs(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    run(["submit", "--gpus", "1"])
    capsys.readouterr()
    (line,) = printed(capsys, "queue", "--no-headers").splitlines()
    assert line.startswith(next(iter(muster.jobs)))
    assert printed(capsys, "queue", "-o", "name").split() == list(muster.jobs)


@pytest.mark.parametrize("form", [[], ["-o", "json"]])
def test_rows_are_sorted_by_a_field(muster: FakeMuster, capsys: pytest.CaptureFixture[str], form: list[str]) -> None:
    field = "name" if form else "node"
    ascending, descending = (printed(capsys, "nodes", *form, "--sort-by", f"{sign}{field}") for sign in ("", "-"))
    assert ascending.index("gpu-01") < ascending.index("gpu-02")
    assert descending.index("gpu-02") < descending.index("gpu-01")


@pytest.mark.parametrize("form", [[], ["-o", "json"]])
def test_an_unknown_field_is_refused_with_those_that_there_are(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    told = refusal(capsys, "nodes", *form, "--sort-by", "age")
    assert "--sort-by: 'age' is not a field; use one of " in told
    assert "gpu_model" in told or "model" in told


@pytest.mark.parametrize("form", ["xml", "jsonpath", "jsonpath={.items[?(@.x)]}", "jsonpath={.items", "json=x"])
def test_an_unknown_format_is_refused(muster: FakeMuster, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert "--output" in refusal(capsys, "nodes", "-o", form)


def test_durations_and_numbers_are_sorted_by_value() -> None:
    texts = ["1-00:00:00", "10:00", "9:59", "45.0s", "1:00:00"]
    assert sorted(texts, key=layout.sort_key) == ["45.0s", "9:59", "10:00", "1:00:00", "1-00:00:00"]
    assert sorted(["10", "9", "x", "1,000"], key=layout.sort_key) == ["9", "10", "1,000", "x"]


@pytest.mark.parametrize("room", range(10, 140, 10))
def test_a_table_fits_the_terminal_and_keeps_its_id_and_state(room: int) -> None:
    headings = ("JOBID", "QUEUE", "NAME", "USER", "ST", "TIME", "NODELIST(REASON)")
    columns = layout.fitted(headings, (26, 10, 20, 8, 2, 7, 60), room)
    shown = [headings[at] for at in columns.shown]
    assert {"JOBID", "ST", "NODELIST(REASON)"} <= set(shown)
    if room >= 40:
        assert sum(columns.widths) + 2 * (len(shown) - 1) <= room
    if room >= 50:
        assert columns.widths[0] == 26


def test_on_a_terminal_no_row_is_wider_and_omitted_columns_are_named(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(Presentation(color=Color.NEVER))
    with redirect_stdout(terminal):
        table(["JOBID", "NAME", "WHERE", "ST"], [["A" * 26, "n" * 90, "w" * 20, "R"]])
    head, row = terminal.getvalue().splitlines()
    assert max(len(head), len(row)) <= 40
    assert "…" in row
    assert row.startswith("A" * 26)
    assert "WHERE" in capsys.readouterr().err


def test_states_are_colored_on_terminals_alone(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(color: Color) -> str:
        terminal.seek(0)
        terminal.truncate()
        choose(Presentation(color=color))
        with redirect_stdout(terminal):
            table(["ID", "ST"], [["a", "R"]])
        return terminal.getvalue()

    assert "\x1b[32mR" in shown(Color.AUTO)
    assert "\x1b" not in shown(Color.NEVER)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(Color.AUTO)
    monkeypatch.setattr(Terminal, "isatty", lambda _: False)
    assert "\x1b[32mR" in shown(Color.ALWAYS)


@pytest.mark.parametrize(("rows", "is_paged"), [(2, False), (9, True)])
def test_only_what_is_longer_than_the_screen_goes_to_the_pager(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: int, is_paged: bool
) -> None:
    seen, program = tmp_path / "seen", tmp_path / "pager.py"
    program.write_text(f"import sys; open({str(seen)!r}, 'w').write(sys.stdin.read())")
    monkeypatch.setenv("MUSTER_PAGER", shlex.join([sys.executable, str(program)]))
    choose(Presentation())
    with redirect_stdout(terminal), paged():
        table(["A"], [[str(n)] for n in range(rows)])
    assert seen.exists() == is_paged
    assert (terminal.getvalue() == "") == is_paged


@pytest.mark.parametrize("pager", ["", "/nowhere/pager"])
def test_without_a_pager_the_result_is_printed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, pager: str) -> None:
    monkeypatch.setenv("MUSTER_PAGER", pager)
    choose(Presentation())
    with redirect_stdout(terminal), paged():
        table(["A"], [[str(n)] for n in range(9)])
    assert len(terminal.getvalue().splitlines()) == 10


def test_a_missing_field_has_no_value_and_a_template_is_bounded() -> None:
    assert parse("{.a.b}/{.c[5]}").apply({"c": [1]}) == "/"
    assert parse("{.a['x.y']}").apply({"a": {"x.y": True}}) == "true"
    with pytest.raises(JsonPathError):
        parse("{" + ".a" * (STEPS_MAX + 1) + "}")
