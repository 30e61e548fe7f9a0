"""Check of the vocabulary: which texts are read, what is reported, and what is excused."""

import re

import pytest

from muster_tools.plain_english import (
    VOCABULARY,
    Exempt,
    Rule,
    Vocabulary,
    is_checked,
    problems,
    texts_of,
    vocabulary_of,
)

DOOR = Rule("metaphor", re.compile(r"\bdoor\b", re.IGNORECASE), "write 'HTTP server'")
WHAT = Rule("question", re.compile("What "), "begin with an imperative", frozenset({"function"}))
WORDS = Vocabulary((DOOR, WHAT), ())


def found(path: str, content: str, *exempt: Exempt) -> list[str]:
    return list(problems({path: content}, Vocabulary(WORDS.rules, exempt)))


@pytest.mark.parametrize(
    "content",
    [
        '"""The door."""\n',
        'def f() -> None:\n    """Open the door."""\n',
        'class A:\n    x: int\n    """Number of the door."""\n',
        "x = 1  # the door\n",
        'raise ValueError(f"{name}: close the door first")\n',
    ],
)
def test_docstrings_comments_and_messages_are_read(content: str) -> None:
    (problem,) = found("libs/a.py", content)
    assert "'door' (metaphor): write 'HTTP server'" in problem


def test_identifiers_and_keys_are_not_texts() -> None:
    assert found("libs/a.py", 'door = values["door"]\n') == []


def test_text_between_backticks_is_code() -> None:
    assert found("libs/a.py", '"""The class `door`."""\n') == []


def test_a_problem_names_its_own_line() -> None:
    (problem,) = found("libs/a.py", '"""Good.\n\nThe `a\nb` is\nthe door.\n"""\n')
    assert problem.startswith("libs/a.py:5: ")


def test_an_opening_counts_for_its_kind_of_docstring_at_its_beginning_alone() -> None:
    assert len(found("libs/a.py", 'def f() -> None:\n    """What it does."""\n')) == 1
    assert found("libs/a.py", 'class A:\n    """What it does."""\n') == []
    assert found("libs/a.py", 'def f() -> None:\n    """Return What it does."""\n') == []


def test_code_blocks_and_link_targets_of_pages_are_not_read() -> None:
    page = "A [link](door.md).\n\n```sh\nopen door\n```\n\nThe door.\n"
    (problem,) = found("docs/a.md", page)
    assert problem.startswith("docs/a.md:7: ")


def test_comments_and_descriptions_of_yaml_are_read() -> None:
    lines = "door: 1\na: 2  # the door\nb:\n  summary: the door\nc: door\n"
    assert [text.line for text in texts_of("k8s/a.yaml", lines)] == [2, 4]
    assert len(found("k8s/a.yaml", lines)) == 2


def test_an_exception_excuses_its_rules_below_its_path() -> None:
    exempt = Exempt("libs/a", frozenset({"metaphor"}), "not rewritten yet")
    assert found("libs/a/b.py", "# the door\n", exempt) == []
    assert len(found("libs/ab.py", "# the door\n", exempt)) == 2


def test_an_exception_that_excuses_nothing_is_a_problem() -> None:
    (problem,) = found("libs/a.py", "# fine\n", Exempt("libs", frozenset({"*"}), "not rewritten yet"))
    assert "the exception of libs excuses nothing" in problem


@pytest.mark.parametrize(
    ("path", "checked"),
    [
        ("libs/muster/a.py", True),
        ("tests/unit/a.py", False),
        ("docs/a.md", True),
        ("docs/decisions/0001.md", False),
        ("k8s/a.yaml", True),
        ("proto-schemas/asyncapi/a.yaml", False),
        ("Makefile", False),
    ],
)
def test_generated_files_and_tests_are_not_checked(path: str, *, checked: bool) -> None:
    assert is_checked(path) is checked


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("nobody knows this token", "nobody"),
        ("the agent is told", "told"),
        ("both are told apart by name", ""),
        ("told: the position of the client", ""),
        ("role `centre` of a center", ""),
        ("federation.centre: give a url", ""),
        ("the centre's broker", "british"),
        ("withheld: drained", ""),
        ("the node is withheld", "withheld"),
        ("the penalty of a lane_width", ""),
    ],
)
def test_the_vocabulary_finds_words_and_leaves_names_alone(text: str, rule: str) -> None:
    rules = tuple(one for one in vocabulary_of(VOCABULARY.read_text(encoding="utf-8")).rules if not one.opens)
    hits = list(problems({"k8s/a.yaml": f"# {text}\n"}, Vocabulary(rules, ())))
    assert [f"({rule})" in hit for hit in hits] == ([True] if rule else [])


def test_every_rule_and_every_exception_is_explained() -> None:
    vocabulary = vocabulary_of(VOCABULARY.read_text(encoding="utf-8"))
    names = [rule.name for rule in vocabulary.rules]
    assert len(names) == len(set(names))
    assert all(rule.write for rule in vocabulary.rules)
    assert all(one.reason and one.rules <= {"*", *names} for one in vocabulary.exempt)
