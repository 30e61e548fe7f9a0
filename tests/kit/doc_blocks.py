"""The blocks of code in a page of the documentation, so that tests run what readers copy."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """All fenced blocks of that language, in order. page: below docs/. Fails if there is none."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"docs/{page} has no block of {language}"
    return found


def block(page: str, language: str) -> str:
    """The only one. Fails if there are more."""
    (only,) = blocks(page, language)
    return only
