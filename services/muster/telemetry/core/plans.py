"""Reads a node's page by what was learnt from the one before it: its lines stay, and only their values change.

A page is cut at its values. If what is left is what was left of the node's page before, whose hash is kept and not its
100 KB, every value means what it meant there (`Plan`). Else it is cut at its labels too: what names the series is of
one of few kinds, of which is known what each value measures (`Kind`), and the labels tell of which GPU it is (`learn`).
Whatever is not exactly so plain is read whole (`muster.telemetry.core.pages`), which stays the judge of what a page
says; docs/benchmarks.md has the times.
"""

import itertools
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol, TypeVar

from muster.telemetry.core.lines import LINES_MAX, plain_labels, says_nothing
from muster.telemetry.core.names import (
    EVENT_NAME,
    LABELLED,
    MEANINGS,
    WATCH_CODE,
    WATCH_NAME,
    XID_CODE,
    XID_WINDOW,
    Field,
    Meaning,
    Number,
    is_blank,
)
from muster.telemetry.core.pages import (
    SHOWN,
    WHOLE,
    About,
    Draft,
    Gpu,
    GpuReading,
    Instance,
    Page,
    Shown,
    about,
    count,
    instance_of,
    keep_greatest,
    read_page,
    reading_of,
)

T = TypeVar("T")
KINDS_MAX = 256
"""Kinds of pages that nodes share, and layouts of them; when there are more they are gathered anew."""
_VALUE = re.compile(r"\} ([0-9.]+)\n")
"""What is cut out. A value of any other form (a sign, an exponent, NaN, a time behind it) stays with the rest."""
_PLAIN_MAX = 2**31 - 16
"""Below it, and not below 0, no number is blank."""
_ABOUT_NAMES = frozenset((*XID_CODE, *XID_WINDOW, *WATCH_NAME, *WATCH_CODE, *EVENT_NAME))
"""Labels that say what a series is about, and nothing of whose it is."""
_ABOUT_LABEL = rf'(?:{"|".join(sorted(_ABOUT_NAMES))})="[^"\\]*"'
_ABOUT = re.compile(rf"(?:,{_ABOUT_LABEL})+|^(?:{_ABOUT_LABEL},)+")
Told = Sequence[Number | None]
"""The wanted values of a page in Muster's units, None where one is blank, and one None more at the end."""


class Picker(Protocol):
    """Selector of values at certain places."""

    def __call__(self, values: Sequence[T], /) -> tuple[T, ...]:
        """Return its items of `values`."""
        ...


def _picker(places: Sequence[int]) -> Picker:
    if len(places) > 1:
        return itemgetter(*places)

    def few(values: Sequence[T], /) -> tuple[T, ...]:
        return tuple(values[place] for place in places)

    return few


Abouts = tuple[tuple[int, str], ...]
"""Places of series, and labels."""


class Kind:
    """Pages whose series have the same names in the same order."""

    __slots__ = ("abouts", "meanings", "wanted")

    def __init__(self, wanted: Sequence[tuple[int, Meaning]]) -> None:
        self.meanings = tuple(meaning for _, meaning in wanted)
        """Meanings of the wanted series, in the page's order. A place below is an index of them."""
        self.wanted = _picker([place for place, _ in wanted])
        """Takes the values of the wanted series from those of all series of a page."""
        self.abouts: Abouts = tuple(
            (place, "") for place, meaning in enumerate(self.meanings) if meaning.field in LABELLED
        )
        """Places of the series that are about something, with the labels that say what on the page learned last."""


def kind_of(names: Sequence[str]) -> Kind | None:
    """Return the kind of a page; None if it must be read whole.

    names: the text before the labels of each series, and after the last: a name, perhaps after lines to skip.
    """
    if sum(name.count("\n") for name in names) + len(names) > LINES_MAX:
        return None
    wanted = []
    for place, text in enumerate(names):
        before, _, name = text.rpartition("\n")
        if before and not all(says_nothing(line, MEANINGS) for line in before.split("\n")):
            return None
        if place == len(names) - 1:
            if not says_nothing(name, MEANINGS):
                return None
        elif name in MEANINGS:
            wanted.append((place, MEANINGS[name]))
        elif not name.isidentifier():
            return None
    return Kind(wanted)


@dataclass(frozen=True, slots=True)
class Part:
    """Places of the values of one instance of a GPU."""

    is_all: bool
    """Whether it is a whole GPU without a second value of a field or watch: `first` and `levels` are complete."""
    fields: tuple[Field, ...]
    first: tuple[int, ...]
    """First value of each of the fields."""
    again: tuple[tuple[int, Field], ...]
    """Further values of these, in their order."""
    watches: tuple[str, ...]
    codes: tuple[str, ...]
    levels: tuple[int, ...]
    """First value of each health watch."""
    counts: tuple[tuple[int, Field, About], ...]
    """Other values, which have their own label."""


class _PartDraft:
    """A part during its construction."""

    def __init__(self) -> None:
        self._first: dict[Field, int] = {}
        self._again: list[tuple[int, Field]] = []
        self._watches: dict[str, tuple[str, int]] = {}
        self._counts: list[tuple[int, Field, About]] = []

    def add(self, of: Field, place: int) -> None:
        """Add one value."""
        if self._first.setdefault(of, place) != place:
            self._again.append((place, of))

    def count(self, of: Field, place: int, what: About) -> None:
        """Add one value with its own label; ignore one without a label value."""
        name, code = what
        if of is Field.WATCH and isinstance(name, str) and name and name not in self._watches:
            self._watches[name] = code, place
        elif name not in (None, ""):
            self._counts.append((place, of, what))

    def part(self, *, is_whole_gpu: bool) -> Part:
        """Return the part with all values."""
        return Part(
            is_all=is_whole_gpu and not self._again and not any(of is Field.WATCH for _, of, _ in self._counts),
            fields=tuple(self._first),
            first=tuple(self._first.values()),
            again=tuple(self._again),
            watches=tuple(self._watches),
            codes=tuple(code for code, _ in self._watches.values()),
            levels=tuple(place for _, place in self._watches.values()),
            counts=tuple(self._counts),
        )


@dataclass(frozen=True, slots=True)
class _Owned:
    """An instance as its labels say. Fields: see `Instance`."""

    key: str
    profile: str
    owners: tuple[str, ...]
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A GPU as its labels say. Fields: see `Gpu`."""

    uuid: str
    index: int | None
    model: str
    instances: tuple[_Owned, ...]


def _labelled(gpu: Gpu) -> _Labelled:
    instances = (_Owned(key, one.profile, tuple(one.owners), tuple(one.jobs)) for key, one in gpu.instances.items())
    return _Labelled(gpu.uuid, gpu.index, gpu.model, tuple(instances))


Parts = tuple[tuple[Part, ...], ...]
"""Parts of each GPU of a page, by instance."""


class Layout:
    """Which of a page's values are of which GPU. Nodes of a fleet share it: it names neither GPUs nor owners."""

    __slots__ = ("_converted", "_gpus", "_labelled")

    def __init__(self, kind: Kind, gpus: Parts) -> None:
        absent = len(kind.meanings)
        self._gpus = tuple(
            (parts, _shown_picker(parts[0], absent), _picker(parts[0].levels), parts[0].is_all) for parts in gpus
        )
        parts = [part for of_gpu in gpus for part in of_gpu]
        used = {place for part in parts for place in (*part.first, *(place for place, _ in part.again))}
        self._converted: tuple[tuple[int, Callable[[Number], Number]], ...] = tuple(
            (place, meaning.convert)
            for place, meaning in enumerate(kind.meanings)
            if meaning.is_converted and place in used
        )
        self._labelled = frozenset(
            place for part in parts for place in (*part.levels, *(place for place, _, _ in part.counts))
        )

    def read(self, digits: Sequence[str], gpus: Sequence[_Labelled]) -> tuple[GpuReading, ...] | None:
        """Return the readings of these GPUs from these values; None if one of them needs the full parser."""
        try:
            numbers: list[Number] = json.loads(f"[{','.join(digits)}]")
        except ValueError:  # one begins with a 0, or has no digit on one side of its point
            return None
        blank = [place for place, number in enumerate(numbers) if number >= _PLAIN_MAX and is_blank(number)]
        if not self._labelled.isdisjoint(blank):
            return None
        told: list[Number | None] = [*numbers, None]
        for place, convert in self._converted:
            told[place] = convert(numbers[place])
        for place in blank:
            told[place] = None
        return tuple(
            _whole(gpu, parts[0], Shown._make(shown(told)), levels(numbers), numbers)
            if is_all
            else _cut(gpu, parts, numbers, told)
            for gpu, (parts, shown, levels, is_all) in zip(gpus, self._gpus, strict=True)
        )


def _shown_picker(part: Part, absent: int) -> Picker:
    places = dict(zip(part.fields, part.first, strict=True))
    return _picker([places.get(of, absent) for of in SHOWN])


def _whole(gpu: _Labelled, part: Part, shown: Shown, levels: Sequence[Number], numbers: Sequence[Number]) -> GpuReading:
    """levels: of the part's watches."""
    counted = Instance()
    for place, of, what in part.counts:
        count(counted, of, what, int(numbers[place]))
    return GpuReading(
        gpu.uuid,
        gpu.index,
        gpu.model,
        gpu.instances[0].owners,
        gpu.instances[0].jobs,
        shown,
        xid_counts=tuple(sorted(counted.xids.items())),
        watches=tuple(zip(part.watches, zip(map(int, levels), part.codes, strict=True), strict=True)),
        events=tuple(sorted(counted.events)),
    )


def _cut(gpu: _Labelled, parts: Sequence[Part], numbers: Sequence[Number], told: Told) -> GpuReading:
    """Return the reading of a GPU whose instances or repeated series must be combined."""
    found = Gpu(gpu.uuid, gpu.index, gpu.model)
    for owned, part in zip(gpu.instances, parts, strict=True):
        values = {
            of: value for of, place in zip(part.fields, part.first, strict=True) if (value := told[place]) is not None
        }
        instance = Instance(owned.profile, values, dict.fromkeys(owned.owners), dict.fromkeys(owned.jobs))
        found.instances[owned.key] = instance
        for place, of in part.again:
            if (value := told[place]) is not None:
                keep_greatest(instance, of, value)
        for watch, code, place in zip(part.watches, part.codes, part.levels, strict=True):
            instance.watches[watch] = int(numbers[place]), code
        for place, of, what in part.counts:
            count(instance, of, what, int(numbers[place]))
    return reading_of(found)


@dataclass(frozen=True, slots=True)
class Plan:
    """Cached layout of a node's page."""

    rest: int
    """Hash of what is left of the page without its values."""
    kind: Kind
    layout: Layout
    driver: str
    gpus: tuple[_Labelled, ...]


_Read = tuple[_PartDraft | None, Mapping[str, str]]
"""The part of a series, None without a GPU, and the labels of the series."""


class _Labels:
    """Reads the labels of a page's series. draft: the page without values; parts: by `id` of their instances."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.parts: dict[int, _PartDraft] = {}
        self._terms: dict[str, tuple[str, str]] = {}
        self._known: dict[str, _Read] = {}

    def of(self, text: str) -> _Read | None:
        """Return what these labels say; None if they are not plain."""
        found = self._known.get(text)
        if found is None:
            labels = plain_labels(text, self._terms)
            if labels is None:
                return None
            instance = instance_of(self.draft, labels)
            part = None if instance is None else self.parts.get(id(instance))
            if instance is not None and part is None:
                part = self.parts[id(instance)] = _PartDraft()
            found = self._known[text] = part, labels
        return found


def _without(text: str, about: str) -> str:
    """Return labels without those that say what a series is about; "" if these are not among them.

    In plain labels a quote before a comma ends a label, and nothing else does.
    """
    start = text.find(about)
    end = start + len(about)
    if not about or start < 0:
        return ""
    is_bounded = about[-1] == "," if start == 0 else text[start - 1] == '"' and text[end : end + 1] in ("", ",")
    return text[:start] + text[end:] if is_bounded else ""


def _about_labels(text: str) -> str:
    """Return the labels that say what a series is about, "" without any."""
    found = _ABOUT.search(text)
    return "" if found is None else found[0]


def learn(kind: Kind, labels: Sequence[str]) -> tuple[Draft, Parts] | None:
    """Return the page without values, and which values are of which GPU; None if the page must be read whole.

    labels: of the wanted series.
    """
    page = _Labels()
    for place, (text, meaning) in enumerate(zip(labels, kind.meanings, strict=True)):
        found = page.of(text)
        if found is None:
            return None
        part, read = found
        if part is None:
            continue
        if meaning.field in LABELLED:
            part.count(meaning.field, place, about(meaning.field, read))
        else:
            part.add(meaning.field, place)
    kind.abouts = tuple((place, _about_labels(labels[place])) for place, _ in kind.abouts)
    return page.draft, tuple(
        tuple(page.parts[id(one)].part(is_whole_gpu=[*gpu.instances] == [WHOLE]) for one in gpu.instances.values())
        for gpu in page.draft.gpus.values()
    )


Groups = tuple[int, ...]
"""For each wanted series, the place of the first one with the same labels, without those that say what it is about."""
Owners = tuple[tuple[int | None, ...], tuple[tuple[bool, tuple[int, ...]], ...]]
"""By group, the number of its instance, None without a GPU; by GPU, whether it is whole, and its instances."""


def _grouped(kind: Kind, labels: Sequence[str]) -> tuple[list[str], Groups]:
    """Return the labels of each wanted series without those that say what it is about, and the groups."""
    owners = list(labels)
    for place, middle in kind.abouts:
        owners[place] = _without(labels[place], middle)
    first: dict[str, int] = {}
    return owners, tuple(map(first.setdefault, owners, itertools.count()))


def _owned(owners: Iterable[str]) -> tuple[Draft, Owners] | None:
    """Read the labels of each group; return None where `learn` must look at all of them.

    A label that says what a series is about must not be among them: the series that is about something has it twice.
    """
    draft, terms = Draft(), dict[str, tuple[str, str]]()
    numbers: dict[int, int] = {}
    of_groups: list[int | None] = []
    for text in owners:
        read = plain_labels(text, terms)
        if read is None or not read.keys().isdisjoint(_ABOUT_NAMES):
            return None
        instance = instance_of(draft, read)
        of_groups.append(None if instance is None else numbers.setdefault(id(instance), len(numbers)))
    of_gpus = tuple(
        ([*gpu.instances] == [WHOLE], tuple(numbers[id(instance)] for instance in gpu.instances.values()))
        for gpu in draft.gpus.values()
    )
    return draft, (tuple(of_groups), of_gpus)


@dataclass(frozen=True, slots=True)
class _Known:
    """The layout of pages whose wanted series have the same groups."""

    layout: Layout
    leaders: Picker
    """Takes the first series of each group."""
    owners: Owners


class Pages:
    """Reads pages of many nodes, and remembers a plan for each."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._kinds: dict[int, Kind] = {}
        self._layouts: dict[tuple[Kind, Abouts, Groups], _Known] = {}

    def read(self, node: str, text: str) -> Page:
        """Return the same as `read_page` for the node's page. Raises PageError."""
        pieces = _VALUE.split(text)
        rest = tuple(pieces[::2])
        hashed = hash(rest)
        plan = self._plans.get(node)
        if plan is None or plan.rest != hashed:
            plan = self._learned(rest, hashed)
            if plan is None:
                self._plans.pop(node, None)
                return read_page(text)
            self._plans[node] = plan
        gpus = plan.layout.read(plan.kind.wanted(pieces[1::2]), plan.gpus)
        return read_page(text) if gpus is None else Page(gpus, plan.driver)

    @property
    def nodes(self) -> Set[str]:
        """Return the nodes whose pages are remembered."""
        return self._plans.keys()

    def keep(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        for node in [node for node in self._plans if node not in nodes]:
            del self._plans[node]

    def _kind(self, names: tuple[str, ...]) -> Kind | None:
        """Return the kind of a page by hash. The text is not kept: a page may have 8 MiB, chosen by its server."""
        hashed = hash(names)
        kind = self._kinds.get(hashed)
        if kind is None:
            kind = kind_of(names)
            if kind is not None:
                if len(self._kinds) >= KINDS_MAX:
                    self._kinds.clear()
                self._kinds[hashed] = kind
        return kind

    def _learned(self, rest: Sequence[str], hashed: int) -> Plan | None:
        """Return the plan of a page; None if the page must be read whole."""
        cut = [piece.rpartition("{") for piece in rest[:-1]]
        texts = [labels for _, _, labels in cut]
        kind = self._kind((*(name for name, _, _ in cut), rest[-1]))
        if kind is None or "\n" in "".join(texts):
            return None
        labels = kind.wanted(texts)
        found = self._recognized(kind, labels)
        if found is None:
            found = self._learned_anew(kind, labels)
        if found is None:
            return None
        draft, layout = found
        return Plan(hashed, kind, layout, draft.driver, tuple(map(_labelled, draft.gpus.values())))

    def _recognized(self, kind: Kind, labels: Sequence[str]) -> tuple[Draft, Layout] | None:
        """Return the layout of a page that differs from a known one only by the labels of whole groups.

        When a job starts or ends, the labels of a GPU change in all its series.
        """
        owners, groups = _grouped(kind, labels)
        known = self._layouts.get((kind, kind.abouts, groups))
        read = None if known is None else _owned(known.leaders(owners))
        if known is None or read is None or read[1] != known.owners:
            return None
        return read[0], known.layout

    def _learned_anew(self, kind: Kind, labels: Sequence[str]) -> tuple[Draft, Layout] | None:
        """Return the layout of a page, and remember it for pages with the same groups."""
        learned = learn(kind, labels)
        if learned is None:
            return None
        draft, parts = learned
        layout = Layout(kind, parts)
        owners, groups = _grouped(kind, labels)
        leaders = _picker([place for place, first in enumerate(groups) if place == first])
        read = _owned(leaders(owners))
        if read is not None:
            if len(self._layouts) >= KINDS_MAX:
                self._layouts.clear()
            self._layouts[kind, kind.abouts, groups] = _Known(layout, leaders, read[1])
        return draft, layout
