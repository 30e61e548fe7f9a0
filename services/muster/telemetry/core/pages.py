"""What an exporter's page says of each GPU of its node, in Muster's words and units."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.telemetry.core.names import (
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
from muster.telemetry.core.tokens import samples

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
