"""Fenced blocks of the documents, and the commands in them. Pure but for reading the files."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS, PYTHON = "sh", "python"
RUN = (COMMANDS, PYTHON)
"""Languages of blocks that are run."""

SHOWN = frozenset({"", "text", "mermaid", "yaml", "json", "js", "toml", "ini", "promql", "html"})
"""Languages of blocks that are read, not run."""

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*(\S*)")
_PROGRAMS = "muster|make|docker|curl|nats|python3?|pip|bash|promtool|redis-cli|kubectl|kind"
_COMMAND = re.compile(rf"^\s*(?:[$>] )?(?:\w+=\S*\s+)*(?:\S*/)?(?:{_PROGRAMS}) (?![=─|])")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. page: path in the repository. line: of its fence, from 1."""

    page: str
    line: int
    language: str
    text: str

    def parts(self) -> list[str]:
        """What is run by itself: each command, or the whole of a program."""
        return commands(self.text) if self.language == COMMANDS else [self.text]


def pages() -> list[str]:
    """Every page whose commands are run, by its path in the repository."""
    return ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """All blocks in order, indented ones without their indent. Raises ValueError for one that does not end."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            continue
        inner: list[str] = []
        for _, below in lines:
            if below.strip() == fence[2]:
                break
            inner.append(below.removeprefix(fence[1]))
        else:
            raise ValueError(f"{page}:{number}: the block does not end")
        yield Block(page, number, fence[3], "".join(f"{one}\n" for one in inner))


def all_blocks() -> list[Block]:
    """Of all pages."""
    return [block for page in pages() for block in blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))]


def told_as_command(line: str) -> bool:
    """Whether a reader would take this line for something to type."""
    return _COMMAND.match(line) is not None


def commands(text: str) -> list[str]:
    """The commands of a block: lines that belong together as one, without the comments behind them."""
    found: list[str] = []
    pending = ""
    for line in text.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip() or pending.lstrip().startswith("#"):
            pending = ""
        elif not _goes_on(pending):
            found.append(_without_comment(pending))
            pending = ""
    assert not pending, f"the last command does not end: {pending}"
    return found


def _goes_on(text: str) -> bool:
    if text.endswith(("\\", "|", "&&")):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:  # a quotation that is open
        return True
    return False


def _without_comment(text: str) -> str:
    for found in re.finditer(r"\s+#\s", text):
        before = text[: found.start()]
        if not _goes_on(before):
            return before
    return text
