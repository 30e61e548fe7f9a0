"""What a command prints of others' text holds no control character, and nothing else prints."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import muster.cli.output as printed
import muster_tools
from muster.bus.printable import printable, printable_lines
from muster.cli.output import (
    console,
    details,
    emit_json,
    emit_models,
    heading,
    print_error,
    print_line,
    print_lines,
    print_note,
    table,
    talk,
)
from muster.schemas.views import FactView

CLI, TOOLS = Path(printed.__file__).parent, Path(muster_tools.__file__).parent
CONTROL = [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x202E, 0x2066, 0x2028, 0xD800]
HOSTILE = "".join(map(chr, CONTROL)) + "[link=http://evil.example]here[/link] [bold red]x[/] :smile: \\[b]"
LEFT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
PRINTS: dict[str, Callable[[], None]] = {
    "a line": lambda: print_line(HOSTILE),
    "lines": lambda: print_lines(HOSTILE),
    "a note": lambda: print_note(HOSTILE),
    "an error": lambda: print_error(HOSTILE),
    "a table": lambda: table(["A", HOSTILE], [["a", HOSTILE]], title=HOSTILE),
    "details": lambda: details([(HOSTILE, HOSTILE)]),
    "a heading": lambda: heading(HOSTILE),
    "JSON": lambda: emit_json({"name": HOSTILE.replace("\ud800", "")}),
    "views": lambda: emit_models([fact(HOSTILE.replace("\ud800", ""))]),
    "rich's console": lambda: console().print(HOSTILE),
    "rich's other console": lambda: talk().print(HOSTILE[HOSTILE.index("[bold") :], HOSTILE),
    "a status": lambda: talk().print(printed.grid((), [[HOSTILE]])),
}


def fact(body: str) -> FactView:
    return FactView(
        id="i", seq=1, time=1, stream="LOG_a", cluster="a", writer="w", kind="job", subject_id=body, name="n", body=body
    )  # fmt: skip


@pytest.mark.parametrize("what", PRINTS)
def test_text_of_others_reaches_the_terminal_without_control_characters(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    PRINTS[what]()

    out, err = capsys.readouterr()
    assert LEFT.search(out + err) is None, ascii(out + err)
    assert "[bold red]x[/] :smile:" in out + err, "markup is text like any other"


@pytest.mark.parametrize("code", CONTROL)
def test_every_control_character_is_shown_as_an_escape(code: int) -> None:
    assert printable(f"a{chr(code)}b").isprintable()
    assert printable(f"a{chr(code)}b") != "ab"
    assert printable_lines(chr(code)).isprintable() or chr(code) in "\n\t"


def test_json_keeps_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    named = {"name": HOSTILE.replace("\ud800", "")}
    emit_json(named)
    assert json.loads(capsys.readouterr().out) == named


def test_a_name_makes_no_second_line(capsys: pytest.CaptureFixture[str]) -> None:
    table(["A", "B"], [["x\nforged  row", "y"]])
    details([("name", "x\nphase  succeeded")])
    print_line("x\nforged")
    print_error("refused\nmuster: all is well")

    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert err.splitlines()[1].startswith("  ")


FORBIDDEN_CALLS = {"print", "input"}
FORBIDDEN_NAMES = {
    "typer": {"echo", "secho", "confirm", "prompt", "style", "echo_via_pager"},
    "click": {"echo", "secho", "confirm", "prompt", "style", "echo_via_pager"},
    "sys": {"stdout"},
    "rich.console": {"Console"},
}
FORBIDDEN_MODULES = {"rich", "rich.text", "rich.table", "rich.markup", "rich.style", "rich.prompt", "rich.logging"}


@pytest.mark.parametrize(
    "path", sorted({*CLI.rglob("*.py"), *TOOLS.rglob("*.py")} - {CLI / "output.py"}), ids=lambda path: path.name
)
def test_no_other_module_of_the_command_line_writes_to_the_terminal(path: Path) -> None:
    found = [f"{path.name}:{line}: {what}" for line, what in _bypasses(ast.parse(path.read_text()))]
    assert found == [], "print through muster.cli.output, which cleans what it prints"


def _bypasses(tree: ast.Module) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                found.append((node.lineno, name))
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in FORBIDDEN_NAMES.get(module, ()):
                found.append((node.lineno, f"{module}.{name}"))
            case ast.ImportFrom(module=module) if module in FORBIDDEN_MODULES:
                found.append((node.lineno, f"from {module}"))
            case ast.ImportFrom(module=str(module), names=names):
                found += [
                    (node.lineno, f"from {module} import {one.name}")
                    for one in names
                    if one.name in FORBIDDEN_NAMES.get(module, ())
                ]
            case ast.Import(names=names):
                found += [(node.lineno, one.name) for one in names if one.name.split(".")[0] in ("rich", "click")]
    return found
