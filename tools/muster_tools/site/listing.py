"""Folders whose pages are listed without being named: runbooks and decisions. Pure."""

import re
from collections.abc import Mapping

from muster_tools.site.markdown import table

INDEX = "index.md"


def expanded(nav: list[object], pages: list[str]) -> list[object]:
    """Return the navigation with each `folder/*` replaced by its pages, the index first. pages: all, by path."""
    whole: list[object] = []
    for item in nav:
        if isinstance(item, dict):
            whole += [{title: expanded(below, pages) if isinstance(below, list) else _folder(below, pages)}
                      for title, below in item.items()]  # fmt: skip
        else:
            whole.append(item)
    return whole


def _folder(value: object, pages: list[str]) -> object:
    if not isinstance(value, str) or not value.endswith("/*"):
        return value
    folder = value.removesuffix("*")
    found = sorted(page for page in pages if page.startswith(folder) and "/" not in page.removeprefix(folder))
    return sorted(found, key=lambda page: not page.endswith(f"/{INDEX}"))


def with_list(text: str, pages: Mapping[str, str]) -> str:
    """Return an index page with the pages of its folder that it does not name. pages: contents, by file name."""
    lost = [name for name in sorted(pages) if name != INDEX and f"]({name}" not in text]
    if not lost:
        return text
    rows = ((f"[{title(pages[name])}]({name})", opening(pages[name])) for name in lost)
    return f"{text.rstrip()}\n\n{table(('page', 'in a sentence'), rows)}"


def title(text: str) -> str:
    """Return the first heading. Raises ValueError without one, since a listed page needs a title."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"a listed page has no heading `# ...`: {text[:60]!r}")
    return found[1].strip()


def opening(text: str) -> str:
    """Return the first sentence below the heading, or of the marked decision, without links and marks."""
    body = text.partition("\n# ")[2] if not text.startswith("# ") else text
    paragraphs = [part for part in body.split("\n\n") if part.strip() and not part.lstrip().startswith(("#", "|", "`"))]
    decided = [part for part in paragraphs if part.lstrip().startswith("**Decision")]
    first = " ".join([*decided, *paragraphs, ""][0].split())
    first = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", re.sub(r"\*\*[^*]+\.\*\* ", "", first))
    return re.split(r"(?<=[.:])\s", first, maxsplit=1)[0].rstrip(":")
