"""Reads a node's page by what was learnt from the one before it: its lines stay, and only their values change.

A page is cut at its values. If what is left is what was left of the page before, every value means what it meant
there. Of that rest a hash is kept, not its 100 KB; what the values mean is the same for all nodes of a kind, and kept
once.
Whatever is not exactly so is read whole (`muster.telemetry.core.pages`), which stays the judge of what a page says.
"""

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol, TypeVar

from muster.telemetry.core.names import LABELLED, MEANINGS, Field, Number, is_blank
from muster.telemetry.core.pages import About, Gpu, Instance, Line, Page, about, count, keep_greatest, read_lines

LAYOUTS_MAX = 256
"""Kinds of pages that nodes share; when there are more they are gathered anew."""
_VALUE = re.compile(r"\} ([0-9.]+)\n")
"""What is cut out. A value of any other form (a sign, an exponent, NaN, a time behind it) stays with the rest."""
_CUT = "\x00"
"""Between the pieces of the rest. A page that has one itself gives no plan; so the number of values shows any other."""
_PLAIN_MAX = 2**31 - 16
"""Below it, and not below 0, no number is blank."""
T = TypeVar("T")


class _Picker(Protocol):
    """Takes the values at certain places."""

    def __call__(self, values: Sequence[T], /) -> tuple[T, ...]: ...


@dataclass(frozen=True, slots=True)
class _Part:
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


_Key = tuple[tuple[_Part, ...], tuple[tuple[int, str], ...]]
"""The parts, and the values that are converted, by the names of their series."""


class _Layout:
    """What the values of a page mean. parts: by instance, in the page's order."""

    __slots__ = ("converted", "labelled", "parts", "pickers")

    def __init__(self, key: _Key) -> None:
        self.parts, converted = key
        self.converted = tuple((place, MEANINGS[name].convert) for place, name in converted)
        self.pickers = tuple((_picker(part.first), _picker(part.levels)) for part in self.parts)
        self.labelled = frozenset(
            place for part in self.parts for place in (*part.levels, *(place for place, _, _ in part.counts))
        )


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
    layout: _Layout
    driver: str
    gpus: tuple[tuple[str, int | None, str, tuple[_Owned, ...]], ...]


class Pages:
    """Reads pages of many nodes, and remembers a plan for each."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._layouts: dict[_Key, _Layout] = {}

    def read(self, node: str, text: str) -> Page:
        """What `read_page` says of the node's page. Raises PageError."""
        pieces = _VALUE.split(text)
        heads, digits = pieces[::2], pieces[1::2]
        rest = hash(_CUT.join(heads))
        plan = self._plans.get(node)
        if plan is not None and plan.rest == rest and plan.values == len(digits):
            page = _by_plan(plan, digits)
            if page is not None:
                return page
        page, lines = read_lines(text)
        found = None if _CUT in text else _learn(heads, lines, page)
        if found is None:
            self._plans.pop(node, None)
        else:
            self._plans[node] = self._plan(found, page, rest=rest, values=len(digits))
        return page

    def keep(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        for node in [node for node in self._plans if node not in nodes]:
            del self._plans[node]

    def _plan(self, key: _Key, page: Page, *, rest: int, values: int) -> Plan:
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= LAYOUTS_MAX:
                self._layouts.clear()
            layout = self._layouts[key] = _Layout(key)
        return Plan(rest, values, layout, page.driver, tuple(map(_gpu, page.gpus.values())))


def _by_plan(plan: Plan, digits: Sequence[str]) -> Page | None:
    """The page with these values; None if one of them is to be looked at more closely."""
    try:
        numbers: list[Number] = json.loads(f"[{','.join(digits)}]")
    except ValueError:  # one begins with a 0, or has no digit on one side of its point
        return None
    large = [(place, number) for place, number in enumerate(numbers) if number >= _PLAIN_MAX]
    blank = [place for place, number in large if is_blank(number)]
    if not plan.layout.labelled.isdisjoint(blank):
        return None
    told: list[Number | None] = [*numbers]
    for place, convert in plan.layout.converted:
        told[place] = convert(numbers[place])
    for place in blank:
        told[place] = None
    page = Page(driver=plan.driver)
    parts = zip(plan.layout.parts, plan.layout.pickers, strict=True)
    for uuid, index, model, instances in plan.gpus:
        gpu = page.gpus[uuid] = Gpu(uuid, index, model)
        for owned, (part, pickers) in zip(instances, parts, strict=False):  # the next GPU's parts are left to it
            gpu.instances[owned.key] = _instance(owned, part, pickers, numbers, told=told)
    return page


def _instance(
    owned: _Owned,
    part: _Part,
    pickers: tuple[_Picker, _Picker],
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


class _Draft:
    """A part that is being gathered."""

    def __init__(self) -> None:
        self.first: dict[Field, int] = {}
        self.again: list[tuple[int, Field]] = []
        self.watches: dict[str, tuple[str, int]] = {}
        self.counts: list[tuple[int, Field, About]] = []

    def add(self, of: Field, place: int, what: About | None) -> None:
        """One value more."""
        if what is not None:
            name, code = what
            if of is Field.WATCH and isinstance(name, str) and name and name not in self.watches:
                self.watches[name] = code, place
            else:
                self.counts.append((place, of, what))
        elif of in self.first:
            self.again.append((place, of))
        else:
            self.first[of] = place

    def part(self) -> _Part:
        return _Part(
            fields=tuple(self.first),
            first=tuple(self.first.values()),
            again=tuple(self.again),
            watches=tuple(self.watches),
            codes=tuple(code for code, _ in self.watches.values()),
            levels=tuple(place for _, place in self.watches.values()),
            counts=tuple(self.counts),
        )


def _learn(heads: Sequence[str], lines: Sequence[Line], page: Page) -> _Key | None:
    """What the values of the page mean; None if they are not all that it was read from, one after the other.

    heads: what is before each value, and behind the last.
    """
    names = [head[head.rfind("\n") + 1 :].partition("{")[0] for head in heads[:-1]]
    wanted = [(place, name) for place, name in enumerate(names) if name in MEANINGS]
    if [name for _, name in wanted] != [name for name, _ in lines]:
        return None
    drafts = {id(one): _Draft() for gpu in page.gpus.values() for one in gpu.instances.values()}
    converted = []
    for (place, name), (_, series) in zip(wanted, lines, strict=True):
        if series.instance is None:
            continue
        meaning = MEANINGS[name]
        of = meaning.field
        is_labelled = of in LABELLED
        if not is_labelled and meaning.is_converted:
            converted.append((place, name))
        drafts[id(series.instance)].add(of, place, about(of, series.labels) if is_labelled else None)
    return tuple(draft.part() for draft in drafts.values()), tuple(converted)


def _gpu(gpu: Gpu) -> tuple[str, int | None, str, tuple[_Owned, ...]]:
    instances = tuple(
        _Owned(key, one.profile, tuple(one.owners), tuple(one.jobs)) for key, one in gpu.instances.items()
    )
    return gpu.uuid, gpu.index, gpu.model, instances


def _picker(places: tuple[int, ...]) -> _Picker:
    """Takes what is at these places."""
    if len(places) > 1:
        return itemgetter(*places)

    def few(values: Sequence[T], /) -> tuple[T, ...]:
        return tuple(values[place] for place in places)

    return few
