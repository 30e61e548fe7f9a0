"""Check of a built page for loads from other servers; the site has none. Pure."""

import re
from html.parser import HTMLParser

_LOADED = {
    "script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",), "embed": ("src",),
    "object": ("data",), "audio": ("src",), "video": ("src", "poster"), "track": ("src",), "input": ("src",),
    "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
}  # fmt: skip
_LINKS = frozenset({
    "stylesheet", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch", "icon", "apple-touch-icon",
    "manifest",
})  # fmt: skip
_ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_CSS = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


def loaded_by_html(text: str) -> list[str]:
    """Addresses elsewhere that a browser would load by itself for this page; what people may click is none."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.found


def loaded_by_css(text: str) -> list[str]:
    """Return the same for a style sheet."""
    addresses = (one[1] or one[2] for one in _CSS.finditer(text))
    return [address for address in addresses if _ELSEWHERE.match(address)]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        names = _LOADED.get(tag, ())
        if tag == "link" and _LINKS & set(given.get("rel", "").lower().split()):
            names = ("href",)
        values = [part.strip() for name in names for part in given.get(name, "").split(",")]
        self.found += [value for value in values if _ELSEWHERE.match(value)]
        self.found += loaded_by_css(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += loaded_by_css(data)
