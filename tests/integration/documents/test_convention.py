"""Commands in the documents are marked as such, so that none is left untested."""

import ast
import re

import pytest
import typer.main
from typer.core import TyperGroup

from documents.blocks import ROOT, RUN, SHOWN, all_blocks, commands, pages, told_as_command
from documents.tables import PAGES, Instead
from muster.cli.main import app

INSTEAD = [
    pytest.param(page, one, id=f"{page}: {one.said[:60]}") for page, stand in PAGES.items() for one in stand.instead
]


def said_on(page: str) -> list[str]:
    return [one for block in all_blocks() if block.page == page and block.language in RUN for one in block.parts()]


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is(page: str) -> None:
    for block in all_blocks():
        if block.page == page:
            assert block.language in {*RUN, *SHOWN}, f"{page}:{block.line}: write ```sh, or what else it is"


@pytest.mark.parametrize("page", pages())
def test_what_looks_like_a_command_is_one_that_is_run(page: str) -> None:
    lost = [
        f"{page}:{block.line}: {line}"
        for block in all_blocks()
        if block.page == page and block.language not in RUN
        for line in block.text.splitlines()
        if told_as_command(line)
    ]
    assert lost == [], "a block of commands begins with ```sh"


def test_every_page_of_the_table_has_commands() -> None:
    assert [page for page in PAGES if not said_on(page)] == []


@pytest.mark.parametrize(("page", "instead"), INSTEAD)
def test_the_table_holds_nothing_that_its_page_does_not_say(page: str, instead: Instead) -> None:
    said = said_on(page)
    assert any(one.startswith(instead.said) if instead.block else one == instead.said for one in said)


@pytest.mark.parametrize("page", PAGES)
def test_every_word_that_is_filled_in_is_on_its_page(page: str) -> None:
    stand = PAGES[page]
    whole = "\n".join([*said_on(page), *(one.run for one in stand.instead)])
    assert [word for word in stand.fills if word not in whole] == []


@pytest.mark.parametrize(("page", "instead"), [one for one in INSTEAD if one.values[1].by])  # type: ignore[union-attr]
def test_what_runs_it_instead_is_there(page: str, instead: Instead) -> None:
    if instead.by.startswith("make "):
        assert reached_by_ci(instead.by.removeprefix("make ")), f"{page}: CI does not come to {instead.by}"
    else:
        assert_there_is(instead.by, page)


@pytest.mark.parametrize("page", [page for page, stand in PAGES.items() if stand.by])
def test_what_runs_a_whole_page_is_there(page: str) -> None:
    assert_there_is(PAGES[page].by, page)


def assert_there_is(test: str, page: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in names, f"{page}: {path} has no test {name}"


def reached_by_ci(target: str) -> bool:
    """Whether `.ci/run` makes this target, by what it depends on."""
    assert "exec make check" in (ROOT / ".ci/run").read_text()
    rules = dict(re.findall(r"^([a-z0-9-]+):([^#\n=]*)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    reached = ["check"]
    for one in reached:  # grows while it is walked
        reached += [below for below in rules.get(one, "").split() if below in rules and below not in reached]
    return target in reached


def test_a_target_that_nothing_depends_on_is_not_reached() -> None:
    assert reached_by_ci("install")
    assert not reached_by_ci("screenshots")


def inline_commands() -> list[tuple[str, str]]:
    """Commands in running text, by page."""
    found = []
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in all_blocks():
            if block.page == page:
                text = text.replace(block.text, "")
        found += [(page, one) for one in re.findall(r"`(?:\.venv/bin/)?muster ([a-z][^`]*)`", " ".join(text.split()))]
    return found


ROOT_COMMAND = typer.main.get_command(app)


@pytest.mark.parametrize(("page", "said"), sorted(set(inline_commands())))
def test_a_command_in_the_text_is_one_that_there_is(page: str, said: str) -> None:
    words = said.split()
    command: object = ROOT_COMMAND
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{page}: `muster {said}`: no command {words[0]}"
        command = command.commands[words.pop(0)]
    options = {spelled for parameter in command.params for spelled in (*parameter.opts, *parameter.secondary_opts)}  # type: ignore[attr-defined]
    for word in words:
        name = word.partition("=")[0].rstrip(",.")
        if re.fullmatch(r"--?[a-z][a-z-]*", name):
            assert name in {*options, "--help"}, f"{page}: `muster {said}`: no option {name}"


def test_a_block_is_cut_into_commands() -> None:
    text = """# to begin with
muster queue        # all of them
muster submit \\
  --gpus 1
echo 'two
lines # of one' # and a comment

muster log dead | head
"""
    assert commands(text) == [
        "muster queue",
        "muster submit \\\n  --gpus 1",
        "echo 'two\nlines # of one'",
        "muster log dead | head",
    ]


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("muster queue", True),
        ("$ .venv/bin/muster queue", True),
        ("  MUSTER_STATE_DIR=x muster queue", True),
        ("curl -s http://localhost", True),
        ("muster: no such job", False),
        ("makes sense", False),
        ("libs/   muster", False),
    ],
)
def test_commands_are_told_from_what_they_print(line: str, is_one: bool) -> None:
    assert told_as_command(line) is is_one
