"""Which metrics, labels and values a PromQL query names: enough grammar to check it against what is exposed.

It knows what the queries of this repository use: selectors, functions, aggregations with `by` before their body, and
`on`. Whether a query is PromQL at all is asked of Prometheus itself.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<string>"[^"]*"|'[^']*')|(?P<duration>\[[^\]]*\])|(?P<number>\d[\d.]*(e\d+)?[smhdwy]?)"""
    r"""|(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)|(?P<op>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},])|(?P<space>\s+)"""
)
_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = frozenset({"and", "or", "unless", "offset", "bool", "Inf", "NaN"})


@dataclass
class Selector:
    """One selection of a metric. matchers: (label, operator, value). wanted: labels that it must have besides."""

    metric: str
    matchers: list[tuple[str, str, str]] = field(default_factory=list)
    wanted: set[str] = field(default_factory=set)


def selectors(query: str) -> list[Selector]:
    """Every selector of a query, with the labels by which its aggregations group it. Raises ValueError."""
    return _Reader(list(_tokens(query))).read()


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise ValueError(f"not understood from {query[at : at + 30]!r} on")
        at = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            yield kind, match.group()


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._found: list[Selector] = []
        self._groups: list[tuple[int, set[str]]] = []
        self._depth = 0
        self._everywhere: set[str] = set()

    def read(self) -> list[Selector]:
        while self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            self._at += 1
            if text == "(":
                self._depth += 1
            elif text == ")":
                self._depth -= 1
                self._groups = [group for group in self._groups if group[0] < self._depth + 1]
            elif kind == "name" and text in _LISTS:
                self._list(text)
            elif kind == "name" and text not in _WORDS and self._next() != "(" and self._next() not in _LISTS:
                self._select(text)
        for one in self._found:
            one.wanted |= self._everywhere
        return self._found

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _list(self, word: str) -> None:
        """`by (a, b)` binds what stands in the parentheses after it; `on (a)` both sides, here: the whole query."""
        labels = {text for kind, text in self._until(")") if kind == "name"}
        if word == "by":
            if self._next() != "(":
                raise ValueError("`by` stands before the body here")
            self._groups.append((self._depth + 1, labels))
        elif word == "on":
            self._everywhere |= labels

    def _select(self, metric: str) -> None:
        wanted = set[str]().union(*(labels for _, labels in self._groups))
        selector = Selector(metric, wanted=wanted)
        if self._next() == "{":
            words = [text for _, text in self._until("}") if text not in "{},"]
            for label, operator, value in zip(words[::3], words[1::3], words[2::3], strict=True):
                selector.matchers.append((label, operator, value[1:-1]))
        self._found.append(selector)

    def _until(self, end: str) -> Iterator[tuple[str, str]]:
        while (token := self._tokens[self._at])[1] != end:
            self._at += 1
            yield token
        self._at += 1
