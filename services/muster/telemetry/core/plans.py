"""Reads a node's page by what was learnt from the one before it: its lines stay, and only their values change.

A page is cut at its values. If what is left is what was left of the page before, every value means what it meant
there. Of that rest a hash is kept, not its 100 KB. Whatever is not exactly so plain is read whole
(`muster.telemetry.core.pages`), which stays the judge of what a page says; docs/benchmarks.md has the times.
"""

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol, TypeVar

from muster.telemetry.core.names import LABELLED, MEANINGS, Field, Number, is_blank
from muster.telemetry.core.pages import (
    LINES_MAX,
    About,
    Gpu,
    Instance,
    Page,
    about,
    count,
    instance_of,
    keep_greatest,
    plain_labels,
    read_page,
    says_nothing,
)

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


LAYOUTS_MAX = 256
"""Kinds of pages that nodes share; when there are more they are gathered anew."""
_VALUE = re.compile(r"\} ([0-9.]+)\n")
"""What is cut out. A value of any other form (a sign, an exponent, NaN, a time behind it) stays with the rest."""
_CUT = "\x00"
"""Between the pieces of the rest. A page that has one itself gives no plan; so the number of values shows any other."""
_PLAIN_MAX = 2**31 - 16
"""Below it, and not below 0, no number is blank."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """An instance as its labels say. Fields: see `Instance`."""

    key: str
    profile: str
    owners: tuple[str, ...]
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is remembered of a page. rest: hash of what is left of it without its values; values: how many it has.

    gpus: uuid, index, model, instances.
    """

    rest: int
    values: int
    layout: Layout
    driver: str
    gpus: tuple[tuple[str, int | None, str, tuple[_Owned, ...]], ...]


class Pages:
    """Reads pages of many nodes, and remembers a plan for each."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._layouts: dict[Key, Layout] = {}

    def read(self, node: str, text: str) -> Page:
        """What `read_page` says of the node's page. Raises PageError."""
        pieces = _VALUE.split(text)
        heads, digits = pieces[::2], pieces[1::2]
        rest = hash(_CUT.join(heads))
        plan = self._plans.get(node)
        if plan is None or plan.rest != rest or plan.values != len(digits):
            plan = None if _CUT in text else self._learnt(heads, rest, lines=text.count("\n") + 1)
            if plan is None:
                self._plans.pop(node, None)
                return read_page(text)
            self._plans[node] = plan
        page = _by_plan(plan, digits)
        return read_page(text) if page is None else page

    def keep(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        for node in [node for node in self._plans if node not in nodes]:
            del self._plans[node]

    def _learnt(self, heads: Sequence[str], rest: int, *, lines: int) -> Plan | None:
        found = learn(heads, lines=lines)
        if found is None:
            return None
        key, page = found
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= LAYOUTS_MAX:
                self._layouts.clear()
            layout = self._layouts[key] = Layout(key)
        return Plan(rest, len(heads) - 1, layout, page.driver, tuple(map(_gpu, page.gpus.values())))


def _by_plan(plan: Plan, digits: Sequence[str]) -> Page | None:
    """The page with these values; None if one of them is to be looked at more closely."""
    try:
        numbers: list[Number] = json.loads(f"[{','.join(digits)}]")
    except ValueError:  # one begins with a 0, or has no digit on one side of its point
        return None
    layout = plan.layout
    blank = [place for place, number in enumerate(numbers) if number >= _PLAIN_MAX and is_blank(number)]
    if not layout.labelled.isdisjoint(blank):
        return None
    told: list[Number | None] = [*numbers]
    for place, convert in layout.converted:
        told[place] = convert(numbers[place])
    for place in blank:
        told[place] = None
    page = Page(driver=plan.driver)
    parts = iter(layout.parts)
    for uuid, index, model, instances in plan.gpus:
        gpu = page.gpus[uuid] = Gpu(uuid, index, model)
        for owned in instances:
            part, first, levels = next(parts)
            gpu.instances[owned.key] = _instance(owned, part, (first, levels), numbers, told=told)
    return page


def _instance(
    owned: _Owned,
    part: Part,
    pickers: tuple[Picker, Picker],
    numbers: Sequence[Number],
    *,
    told: Sequence[Number | None],
) -> Instance:
    """told: the same numbers in Muster's units, None where one is blank; those with labels of their own are none."""
    first, levels = pickers
    values = {of: value for of, value in zip(part.fields, first(told), strict=True) if value is not None}
    instance = Instance(owned.profile, values, dict.fromkeys(owned.owners), dict.fromkeys(owned.jobs))
    for place, of in part.again:
        value = told[place]
        if value is not None:
            keep_greatest(instance, of, value)
    if part.watches:
        judged = zip(map(int, levels(numbers)), part.codes, strict=True)
        instance.watches = dict(zip(part.watches, judged, strict=True))
    for place, of, what in part.counts:
        count(instance, of, what, int(numbers[place]))
    return instance


def _gpu(gpu: Gpu) -> tuple[str, int | None, str, tuple[_Owned, ...]]:
    instances = tuple(
        _Owned(key, one.profile, tuple(one.owners), tuple(one.jobs)) for key, one in gpu.instances.items()
    )
    return gpu.uuid, gpu.index, gpu.model, instances
