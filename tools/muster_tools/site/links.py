"""Links of Markdown files into the repository, as links into the site. Pure.

The site has the files under docs/, some pages from elsewhere in the repository under a name of their own, the
README.md of every part of the code that a page links to, and copies of all other files that a page links to, under
`files/`.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

DOCS = "docs"
FILES = "files"
PAGES: Mapping[str, str] = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "tools/README.md": "tools.md",
}
"""Where files of the repository stand on the site that are pages, and not under docs/."""

README = "README.md"
CODE = frozenset({"libs", "services", "tools"})
"""Folders of the repository whose README.md files are pages where a page links to them."""

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")


def targets(text: str, *, source: str) -> set[str]:
    """Paths in the repository that a file links to, relative to the repository's root. source: the file's own path."""
    found: set[str] = set()

    def note(target: str) -> str:
        found.add(target)
        return target

    _links_replaced(text, source, note)
    return found


def outside(paths: set[str]) -> set[str]:
    """Return those of the paths that are neither under docs/ nor a page of the site."""
    return {path for path in paths if path not in PAGES and not is_readme(path) and _top(path) != DOCS}


def is_readme(path: str) -> bool:
    """Return whether this is the README.md of a part of the code, and a page without being listed in `PAGES`."""
    return path not in PAGES and posixpath.basename(path) == README and _top(path) in CODE


def on_site(text: str, *, source: str, shown: str) -> str:
    """Return the text with links that are valid on the site. shown: the page's place on it, as `concepts/log.md`."""
    return _links_replaced(
        text, source, lambda target: posixpath.relpath(place(target), posixpath.dirname(shown) or ".")
    )


def place(path: str) -> str:
    """Return the place on the site of a file of the repository; of a folder of docs/ its index.

    The README.md of `libs/muster/bus` is `libs/bus.md`.
    """
    if path in PAGES:
        return PAGES[path]
    if is_readme(path):
        return f"{posixpath.dirname(path)}.md".replace("/muster/", "/")
    if _top(path) == DOCS:
        below = posixpath.relpath(path, DOCS)
        return below if PurePosixPath(below).suffix else posixpath.join(below, "index.md")
    return posixpath.join(FILES, path)


def _top(path: str) -> str:
    return path.partition("/")[0]


def _links_replaced(text: str, source: str, to: Callable[[str], str]) -> str:
    folder = posixpath.dirname(source)

    def replaced(found: re.Match[str]) -> str:
        return to(posixpath.normpath(posixpath.join(folder, found[1]))) + (found[2] or "")

    return "".join(line if is_code else _LINK.sub(replaced, line) for line, is_code in _lines(text))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield every line, and whether it belongs to a fenced block."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence):
                fence = ""
        else:
            fence = mark[1] if mark else ""
            yield line, bool(fence)
