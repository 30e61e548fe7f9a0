"""The lines of an exporter's page, and what they say of each GPU of its node in Muster's terms and units.

Lines are read as prometheus-client reads them, in a small part of its time.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from muster.telemetry.core.names import (
    DIGITS_MAX,
    DRIVER,
    EVENT_NAME,
    INDEX,
    INSTANCE,
    JOB,
    LABELLED,
    MEANINGS,
    MODEL,
    NAMESPACE,
    POD,
    PROFILE,
    UUID,
    WATCH_CODE,
    WATCH_NAME,
    XID_CODE,
    Field,
    Number,
    is_blank,
    label_of,
    number_of,
)

LINES_MAX = 100_000
_SHOWN_CHARS_MAX = 200
Entity = TypeVar("Entity")


class PageError(ValueError):
    """The page is no page of metrics. The message names the line."""


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
    """A comment, a blank line, or a sample that nobody wants; False for one that has to be looked at."""
    if not line or line[0] == "#":
        return True
    name, brace, _ = line.partition("{")
    return bool(brace) and name not in wanted and name.isidentifier()


def plain_labels(text: str, terms: dict[str, tuple[str, str]]) -> dict[str, str] | None:
    """The labels of a text without escapes, in which a quote ends a value and nothing else; None for any other.

    terms: of the page, as far as they were taken apart.
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
    """The number as the library reads it; None for one that it has to look at."""
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
    """A line that the library reads: comments and blank lines hold no sample."""
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


WHOLE = ""
"""The instance of a GPU that is not cut into instances (MIG)."""


@dataclass(slots=True)
class Instance:
    """A GPU, or an instance of one. profile: as MIG calls it ("1g.10gb"), "" for a whole one.

    owners: namespace/pod of whom the page names; jobs: ids that it names itself. xids, watches, events: counts by XID,
    levels and error codes by health watch, counts by clock event.
    """

    profile: str = ""
    values: dict[Field, Number] = field(default_factory=dict)
    owners: dict[str, None] = field(default_factory=dict)
    jobs: dict[str, None] = field(default_factory=dict)
    xids: dict[int, int] = field(default_factory=dict)
    watches: dict[str, tuple[int, str]] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Gpu:
    """One GPU of a page. index: as the driver numbers it, None if the page does not say. instances: by their id."""

    uuid: str
    index: int | None = None
    model: str = ""
    instances: dict[str, Instance] = field(default_factory=dict)


@dataclass(slots=True)
class Page:
    """One page. gpus: by uuid, in the page's order. driver: its version, "" if the page does not say."""

    gpus: dict[str, Gpu] = field(default_factory=dict)
    driver: str = ""


@dataclass(frozen=True, slots=True)
class _Series:
    """What the labels of a series say: whose values they are, and what else it is about."""

    instance: Instance | None
    labels: Mapping[str, str]


def read_page(text: str) -> Page:
    """The page. Series of the same thing, as time-slicing makes them for every pod, count once: the greatest value.

    Raises PageError.
    """
    page = Page()

    def entity(labels: dict[str, str]) -> _Series:
        return _Series(instance_of(page, labels), labels)

    for name, series, value in samples(text, wanted=MEANINGS, entity=entity):
        instance = series.instance
        if instance is None or is_blank(value):
            continue
        meaning = MEANINGS[name]
        of = meaning.field
        if of in LABELLED:
            count(instance, of, about(of, series.labels), int(value))
        else:
            keep_greatest(instance, of, meaning.convert(value))
    return page


def instance_of(page: Page, labels: Mapping[str, str]) -> Instance | None:
    """Where the values of a series belong, with whom its labels name; None for a switch, a CPU, or whatever else has
    no GPU.
    """
    uuid = label_of(labels, UUID)
    if not uuid:
        return None
    if not page.driver:
        page.driver = label_of(labels, DRIVER)
    gpu = page.gpus.get(uuid)
    if gpu is None:
        gpu = page.gpus[uuid] = Gpu(uuid)
    if gpu.index is None:
        gpu.index = number_of(labels, INDEX)
    if not gpu.model:
        gpu.model = label_of(labels, MODEL)
    key = label_of(labels, INSTANCE) or WHOLE
    instance = gpu.instances.get(key)
    if instance is None:
        instance = gpu.instances[key] = Instance(label_of(labels, PROFILE))
    _owned(instance, labels)
    return instance


def _owned(instance: Instance, labels: Mapping[str, str]) -> None:
    job = label_of(labels, JOB)
    if job:
        instance.jobs[job] = None
    pod = label_of(labels, POD)
    if pod:
        instance.owners[f"{label_of(labels, NAMESPACE)}/{pod}"] = None


About = tuple[int | str | None, str]
"""Of a field with a series for each value of a label: the XID, watch or clock event, and a watch's error code."""


def about(of: Field, labels: Mapping[str, str]) -> About:
    """What a series of such a field is about."""
    if of is Field.XID_COUNT:
        return number_of(labels, XID_CODE), ""
    if of is Field.WATCH:
        return label_of(labels, WATCH_NAME), label_of(labels, WATCH_CODE)
    return label_of(labels, EVENT_NAME), ""


def count(instance: Instance, of: Field, about: About, value: int) -> None:
    """One value of such a series; one that names nothing says nothing."""
    name, code = about
    if isinstance(name, int):
        if value > 0:
            instance.xids[name] = max(value, instance.xids.get(name, 0))
    elif not name:
        return
    elif of is Field.WATCH:
        if value >= instance.watches.get(name, (-1, ""))[0]:
            instance.watches[name] = value, code
    elif value > 0:
        instance.events[name] = max(value, instance.events.get(name, 0))


def keep_greatest(instance: Instance, of: Field, value: Number) -> None:
    """One value of any other series."""
    known = instance.values.get(of)
    if known is None or value > known:
        instance.values[of] = value
