"""Parser of an exporter's lines, equivalent to prometheus-client's and much faster."""

from collections.abc import Callable, Container, Iterator
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from muster.telemetry.core.names import DIGITS_MAX, Number

LINES_MAX = 100_000
_SHOWN_CHARS_MAX = 200
Entity = TypeVar("Entity")


class PageError(ValueError):
    """The page is not a page of metrics. The message names the line."""


def samples(
    text: str, *, wanted: Container[str], entity: Callable[[dict[str, str]], Entity]
) -> Iterator[tuple[str, Entity, Number]]:
    """Name, what `entity` makes of the labels, and value of every sample whose name is wanted, in the page's order.

    entity: called once for each different text of labels, as a rule. Raises PageError at the first line that is none;
    lines of names that are not wanted are not looked into.
    """
    known: dict[str, Entity] = {}
    terms: dict[str, tuple[str, str]] = {}
    lines = text.split("\n")
    if len(lines) > LINES_MAX:
        raise PageError(f"the page has {len(lines)} lines; {LINES_MAX} are read")
    for place, line in enumerate(lines, start=1):
        if not line or line[0] == "#":
            continue
        name, brace, rest = line.partition("{")
        if not brace or name not in wanted:
            if not name.isidentifier():  # no name alone: perhaps there are no labels, or it is written otherwise
                yield from _whole(line, place, wanted, entity)
            continue
        labels, end, digits = rest.rpartition("} ")
        value = _number(digits) if end else None
        found = known.get(labels)
        if found is None and value is not None and (read := plain_labels(labels, terms)) is not None:
            found = known[labels] = entity(read)
        if found is None or value is None:
            yield from _whole(line, place, wanted, entity)
        else:
            yield name, found, value


def says_nothing(line: str, wanted: Container[str]) -> bool:
    """Return whether the line is a comment, blank, or a sample that is not needed; False for a line to parse."""
    if not line or line[0] == "#":
        return True
    name, brace, _ = line.partition("{")
    return bool(brace) and name not in wanted and name.isidentifier()


def plain_labels(text: str, terms: dict[str, tuple[str, str]]) -> dict[str, str] | None:
    """Return the labels of a text without escapes, in which quotes only delimit values; None for any other text.

    terms: cache of the page's parsed labels.
    """
    if "\\" in text or text[-1:] != '"':
        return None
    parts = text[:-1].split('",')
    found = list(map(terms.get, parts))
    if None in found:
        for part in parts:
            if part not in terms:
                term = _term(part)
                if term is None:
                    return None
                terms[part] = term
        found = list(map(terms.get, parts))
    labels = dict(term for term in found if term is not None)
    return labels if len(labels) == len(parts) else None


def _term(part: str) -> tuple[str, str] | None:
    """Name and value of `name="value`; None if it is not that plain."""
    name, equals, value = part.partition('="')
    if not equals or '"' in value or not (name.isascii() and name.isidentifier()) or name[:2] == "__":
        return None
    return name, value


def _number(digits: str) -> Number | None:
    """Return the number as the library reads it; None for one that the library must read."""
    if digits.isdecimal():
        return int(digits) if digits.isascii() and len(digits) <= DIGITS_MAX else None
    if "." not in digits or "_" in digits:
        return None
    try:
        return float(digits)
    except ValueError:
        return None


def _whole(
    line: str, place: int, wanted: Container[str], entity: Callable[[dict[str, str]], Entity]
) -> Iterator[tuple[str, Entity, Number]]:
    """Yield the sample of a line that the library reads; none for comments and blank lines."""
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        return
    try:
        read = tuple(_library(stripped))
    except (ValueError, IndexError) as error:
        raise PageError(f"line {place} is no sample: {stripped[:_SHOWN_CHARS_MAX]!r}") from error
    for sample in read:
        if sample.name in wanted:
            yield sample.name, entity(dict(sample.labels)), sample.value


def _library(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples
