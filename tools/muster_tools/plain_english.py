"""Check of the vocabulary of docstrings, comments, messages, pages and YAML comments: `make plain-english`.

`plain_english.toml` lists the words, the first words of docstrings, what to write instead, and the exceptions. An
exception that excuses nothing is a problem too, so the list shrinks with the texts. Text between backticks is code.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.cli.output import print_line, print_note

ROOT = Path(__file__).parents[2]
VOCABULARY = Path(__file__).with_name("plain_english.toml")
PYTHON = ("libs", "proto-schemas", "services", "tools")
"""Roots of the checked Python files; tests are not part of the interface."""
YAML = ("compose", "examples", "k8s", "services", "tools")
"""Roots of the checked YAML files; exported documents are made from docstrings."""
PAGES = ("docs/decisions/",)
"""Pages that are not checked: they record history."""

_CODE = re.compile(r"(`+)(?:(?!\1).)+\1", re.DOTALL)
_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_FENCE = re.compile(r"^ *```")
_PROSE = re.compile(r"[a-z] +[a-z]", re.IGNORECASE)
_YAML_TEXT = re.compile(r"(?:^|\s)#(.*)|^\s*(?:summary|description): *(.*)")


@dataclass(frozen=True, slots=True)
class Text:
    """A text that people read."""

    line: int
    """Number of its first line in the file, from 1."""
    text: str
    opens: str = ""
    """The documented thing: `function`, `property`, `class`, `module` or `field`; empty if it is not a docstring."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A word, or the beginning of a docstring, that has a better one."""

    name: str
    pattern: re.Pattern[str]
    write: str
    """What to write instead."""
    opens: frozenset[str] = frozenset()
    """The kinds of docstrings that it must not begin; empty for a word of any text."""


@dataclass(frozen=True, slots=True)
class Exempt:
    """Rules that do not apply below a path."""

    path: str
    rules: frozenset[str]
    """Names of rules; `*` is every rule."""
    reason: str

    def covers(self, path: str, rule: str) -> bool:
        """Return whether this rule does not apply to this file."""
        inside = path == self.path or path.startswith(f"{self.path}/")
        return inside and not self.rules.isdisjoint({"*", rule})


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The rules and their exceptions."""

    rules: tuple[Rule, ...]
    exempt: tuple[Exempt, ...]


def vocabulary_of(text: str) -> Vocabulary:
    """Parse the vocabulary. Raises KeyError, tomllib.TOMLDecodeError, re.error."""
    tables = tomllib.loads(text)
    words = [
        Rule(row["name"], re.compile(rf"\b(?:{row['find']})\b", re.IGNORECASE), row["write"]) for row in tables["word"]
    ]
    openings = [
        Rule(row["name"], re.compile(rf"(?:{row['find']})"), row["write"], frozenset(row["of"]))
        for row in tables["opening"]
    ]
    exempt = [Exempt(row["path"], frozenset(row["rules"]), row["reason"]) for row in tables.get("exception", ())]
    return Vocabulary((*words, *openings), tuple(exempt))


def texts_of(path: str, content: str) -> Iterator[Text]:
    """Yield the texts of a file by the kind of the file: Python, Markdown or YAML. Raises SyntaxError."""
    if path.endswith(".py"):
        yield from _python_texts(path, content)
    elif path.endswith(".md"):
        yield from _page_texts(content)
    else:
        yield from _yaml_texts(content)


def problems(files: Mapping[str, str], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a message for each use of a listed word, and for each exception that excuses nothing.

    files: contents by path from the root of the checkout.
    """
    used: set[Exempt] = set()
    for path, content in sorted(files.items()):
        for text in texts_of(path, content):
            for line, rule, word in _findings(text, vocabulary.rules):
                excuses = {one for one in vocabulary.exempt if one.covers(path, rule.name)}
                used |= excuses
                if not excuses:
                    yield f"{path}:{line}: {word!r} ({rule.name}): {rule.write}"
    for one in vocabulary.exempt:
        if one not in used:
            yield f"{VOCABULARY.name}: the exception of {one.path} excuses nothing: delete it"


def _findings(text: Text, rules: Iterable[Rule]) -> Iterator[tuple[int, Rule, str]]:
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text.text)
    for rule in rules:
        if rule.opens:
            if text.opens in rule.opens and (found := rule.pattern.match(text.text)):
                yield text.line, rule, found[0].strip()
        else:
            for found in rule.pattern.finditer(prose):
                yield text.line + prose.count("\n", 0, found.start()), rule, found[0]


def _python_texts(path: str, content: str) -> Iterator[Text]:
    tree = ast.parse(content, filename=path)
    documents: set[int] = set()
    for node in ast.walk(tree):
        body: Sequence[ast.stmt] = getattr(node, "body", ()) if isinstance(node, ast.Module | _DEFINITION) else ()
        for index, statement in enumerate(body):
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                documents.add(id(value))
                yield Text(value.lineno, value.value, _kind(node) if index == 0 else "field")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield from [Text(node.lineno, node.value)] if _PROSE.search(node.value) else ()
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string)


_DEFINITION = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _kind(node: ast.AST) -> str:
    match node:
        case ast.Module():
            return "module"
        case ast.ClassDef():
            return "class"
        case ast.FunctionDef(decorator_list=decorators) if any("property" in ast.dump(one) for one in decorators):
            return "property"  # a noun phrase, as for a field
        case _:
            return "function"


def _page_texts(content: str) -> Iterator[Text]:
    """Yield the paragraphs of a page without its code blocks and link targets."""
    paragraph: list[str] = []
    fenced = False
    for number, line in enumerate([*content.splitlines(), ""], start=1):
        fence = bool(_FENCE.match(line))
        if fence or fenced or not line.strip():
            if paragraph:
                yield Text(number - len(paragraph), "\n".join(paragraph))
            paragraph = []
            fenced ^= fence
        else:
            paragraph.append(_LINK_TARGET.sub("]", line))


def _yaml_texts(content: str) -> Iterator[Text]:
    """Yield the comments, and the summaries and descriptions, of a YAML file."""
    for number, line in enumerate(content.splitlines(), start=1):
        if found := _YAML_TEXT.search(line):
            yield Text(number, found[1] or found[2] or "")


def is_checked(path: str) -> bool:
    """Return whether a file of the checkout is checked. path: from the root of the checkout."""
    root = path.partition("/")[0]
    match path.rpartition(".")[2]:
        case "py":
            return root in PYTHON
        case "md":
            return not path.startswith(PAGES)
        case "yaml" | "yml":
            return root in YAML
        case _:
            return False


def main() -> int:
    """Print the problems of the checkout; return 1 if there are any."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - constant
    paths = [path for path in listed.split("\0") if is_checked(path) and (ROOT / path).is_file()]
    files = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    found = list(problems(files, vocabulary_of(VOCABULARY.read_text(encoding="utf-8"))))
    for problem in found:
        print_note(problem)
    print_line(f"plain English: {len(files)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
