"""What the values of a page mean, learnt from the pieces between them. Pages of all nodes of a kind have one layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol, TypeVar

from muster.telemetry.core.names import LABELLED, MEANINGS, Field
from muster.telemetry.core.pages import About, Page, about, instance_of
from muster.telemetry.core.tokens import LINES_MAX, plain_labels, says_nothing

T = TypeVar("T")


class Picker(Protocol):
    """Takes the values at certain places."""

    def __call__(self, values: Sequence[T], /) -> tuple[T, ...]:
        """Those of `values`."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """Which values are of one instance of a GPU, by their places among all values of the page.

    fields, first: of each field the first value. again: further ones of a field, in their order. watches, codes,
    levels: of each health watch the first value. counts: whatever else has a label of its own.
    """

    fields: tuple[Field, ...]
    first: tuple[int, ...]
    again: tuple[tuple[int, Field], ...]
    watches: tuple[str, ...]
    codes: tuple[str, ...]
    levels: tuple[int, ...]
    counts: tuple[tuple[int, Field, About], ...]


Key = tuple[tuple[Part, ...], tuple[tuple[int, str], ...]]
"""Of a layout: its parts, and the values that are converted, by the names of their series."""


class Layout:
    """The meaning of a page's values. parts: by instance, in the page's order, with who picks out `first` and `levels`.

    converted: places of values that are in another unit. labelled: of those with a label of their own.
    """

    __slots__ = ("converted", "labelled", "parts")

    def __init__(self, key: Key) -> None:
        parts, converted = key
        self.parts = tuple((part, _picker(part.first), _picker(part.levels)) for part in parts)
        self.converted = tuple((place, MEANINGS[name].convert) for place, name in converted)
        self.labelled = frozenset(
            place for part in parts for place in (*part.levels, *(place for place, _, _ in part.counts))
        )


def learn(heads: Sequence[str], *, lines: int) -> tuple[Key, Page] | None:
    """The key of the layout, and the page without values; None if the page has to be read whole.

    heads: the page without its values, cut where they were: what is before each up to its labels, and behind the last.
    lines: of the page.
    """
    wanted = None if lines > LINES_MAX else _wanted(heads)
    if wanted is None:
        return None
    page, drafts, converted = Page(), dict[int, _Draft](), list[tuple[int, str]]()
    known: dict[str, tuple[_Draft | None, dict[str, str]]] = {}
    terms: dict[str, tuple[str, str]] = {}
    for name, values in wanted:
        of, is_converted = MEANINGS[name].field, MEANINGS[name].is_converted
        is_labelled = of in LABELLED
        for place, labels in values:
            found = known.get(labels)
            if found is None:
                read = plain_labels(labels, terms)
                if read is None:
                    return None
                instance = instance_of(page, read)
                found = known[labels] = (None if instance is None else drafts.setdefault(id(instance), _Draft()), read)
            draft, read = found
            if draft is None:
                continue
            if is_labelled:
                draft.count(of, place, about(of, read))
                continue
            draft.add(of, place)
            if is_converted:
                converted.append((place, name))
    parts = (drafts[id(one)].part() for gpu in page.gpus.values() for one in gpu.instances.values())
    return (tuple(parts), tuple(converted)), page


def _wanted(heads: Sequence[str]) -> list[tuple[str, list[tuple[int, str]]]] | None:
    """Names, and of each the places and labels of its values, in the page's order: a name's lines stand together.

    None if there is a line that has to be looked at.
    """
    found: list[tuple[str, list[tuple[int, str]]]] = []
    values: list[tuple[int, str]] = []
    start, is_wanted = "", False
    for place, head in enumerate(heads[:-1]):
        if not start or "\n" in head or not head.startswith(start):
            before, newline, line = head.rpartition("\n")
            name, brace, _ = line.partition("{")
            is_wanted, start = name in MEANINGS and bool(brace), name + brace
            if (newline and not _nothing(before)) or not (is_wanted or (line and says_nothing(line, MEANINGS))):
                return None
            if is_wanted:
                values = []
                found.append((name, values))
            head = line  # noqa: PLW2901 - what is before it says nothing
        if is_wanted:
            values.append((place, head[len(start) :]))
    return found if _nothing(heads[-1]) else None


def _nothing(text: str) -> bool:
    return all(says_nothing(line, MEANINGS) for line in text.split("\n"))


class _Draft:
    """A part that is being gathered."""

    def __init__(self) -> None:
        self._first: dict[Field, int] = {}
        self._again: list[tuple[int, Field]] = []
        self._watches: dict[str, tuple[str, int]] = {}
        self._counts: list[tuple[int, Field, About]] = []

    def add(self, of: Field, place: int) -> None:
        """One value more."""
        if self._first.setdefault(of, place) != place:
            self._again.append((place, of))

    def count(self, of: Field, place: int, what: About) -> None:
        """One value more that has a label of its own."""
        name, code = what
        if of is Field.WATCH and isinstance(name, str) and name and name not in self._watches:
            self._watches[name] = code, place
        else:
            self._counts.append((place, of, what))

    def part(self) -> Part:
        """All of them."""
        return Part(
            fields=tuple(self._first),
            first=tuple(self._first.values()),
            again=tuple(self._again),
            watches=tuple(self._watches),
            codes=tuple(code for code, _ in self._watches.values()),
            levels=tuple(place for _, place in self._watches.values()),
            counts=tuple(self._counts),
        )


def _picker(places: tuple[int, ...]) -> Picker:
    if len(places) > 1:
        return itemgetter(*places)

    def few(values: Sequence[T], /) -> tuple[T, ...]:
        return tuple(values[place] for place in places)

    return few
