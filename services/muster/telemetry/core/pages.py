"""Parser of an exporter's page into the readings of each GPU of its node, in Muster's terms and units."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.telemetry.core.lines import samples
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

WHOLE = ""
"""Instance name of a GPU without instances (MIG)."""


@dataclass(slots=True)
class Instance:
    """A GPU, or an instance of one, while a page is being read.

    profile: as MIG calls it ("1g.10gb"), "" for a whole one. owners: namespace/pod of whom the page names; jobs: ids
    that it names itself. xids, watches, events: counts by XID, levels and error codes by health watch, counts by clock
    event.
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
    """One GPU, while a page is being read. index: as the driver numbers it, None if the page does not say.

    instances: by their id.
    """

    uuid: str
    index: int | None = None
    model: str = ""
    instances: dict[str, Instance] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """A page during parsing. gpus: by uuid, in the page's order."""

    gpus: dict[str, Gpu] = field(default_factory=dict)
    driver: str = ""


class Shown(NamedTuple):
    """Values of a whole GPU, by `Field`, in Muster's units. None: not on the page."""

    utilisation_pct: Number | None
    engine_pct: Number | None
    sm_active_pct: Number | None
    tensor_active_pct: Number | None
    dram_active_pct: Number | None
    memory_free_mib: Number | None
    memory_used_mib: Number | None
    memory_total_mib: Number | None
    power_w: Number | None
    temperature_c: Number | None
    memory_temperature_c: Number | None
    energy_mj: Number | None
    nvlink_bytes_s: Number | None
    nvlink_tx_bytes_s: Number | None
    nvlink_rx_bytes_s: Number | None
    pcie_tx_bytes_s: Number | None
    pcie_rx_bytes_s: Number | None
    pcie_replays: Number | None
    ecc_sbe: Number | None
    ecc_dbe: Number | None
    ecc_sbe_ever: Number | None
    ecc_dbe_ever: Number | None
    rows_remapped_sbe: Number | None
    rows_remapped_dbe: Number | None
    remap_pending: Number | None
    remap_failed: Number | None
    retirement_pending: Number | None
    xid: Number | None
    recovery_action: Number | None


SHOWN = tuple(map(Field, Shown._fields))
_SUMMED = frozenset({Field.MEMORY_FREE_MIB, Field.MEMORY_USED_MIB, Field.MEMORY_TOTAL_MIB})
_SHARES = frozenset({Field.ENGINE_PCT, Field.SM_PCT, Field.TENSOR_PCT, Field.DRAM_PCT})
_SLICES = re.compile(r"(\d+)g\.")
_SLICES_OF_GPU = 7.0
"""Compute slices of a GPU that MIG cuts: a profile `2g.20gb` has two of them (NVIDIA MIG user guide)."""


class GpuReading(NamedTuple):
    """One GPU of a page, with all its instances."""

    uuid: str
    driver_index: int | None
    """Index of the driver, None if the page does not have it."""
    model: str
    owners: tuple[str, ...]
    """namespace/pod of whom the page names."""
    jobs: tuple[str, ...]
    """Ids of jobs that the page names itself."""
    shown: Shown
    xid_counts: tuple[tuple[int, int], ...]
    """(XID, how many in the exporter's window), by XID."""
    watches: tuple[tuple[str, tuple[int, str]], ...]
    """Level and error code of each health watch, the worst of the instances."""
    events: tuple[str, ...]
    """Clock events that were counted, sorted."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page. gpus: in its order. driver: its version, "" if the page does not say."""

    gpus: tuple[GpuReading, ...] = ()
    driver: str = ""


@dataclass(frozen=True, slots=True)
class _Series:
    """Labels of a series: the GPU of its values, and its further subject."""

    instance: Instance | None
    labels: Mapping[str, str]


def read_page(text: str) -> Page:
    """Parse the page. Repeated series, which time-slicing creates for every pod, count once: the greatest value.

    Raises PageError.
    """
    draft = Draft()

    def entity(labels: dict[str, str]) -> _Series:
        return _Series(instance_of(draft, labels), labels)

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
    return Page(tuple(map(reading_of, draft.gpus.values())), draft.driver)


def reading_of(gpu: Gpu) -> GpuReading:
    """Return the reading of all its instances together."""
    instances = gpu.instances.values()
    return GpuReading(
        gpu.uuid,
        gpu.index,
        gpu.model,
        owners=tuple(dict.fromkeys(owner for one in instances for owner in one.owners)),
        jobs=tuple(dict.fromkeys(job for one in instances for job in one.jobs)),
        shown=Shown._make(map(_values(gpu).get, SHOWN)),
        xid_counts=_counts(instances),
        watches=_watches(instances),
        events=tuple(sorted({event for one in instances for event in one.events})),
    )


def _values(gpu: Gpu) -> Mapping[Field, Number]:
    whole = gpu.instances.get(WHOLE)
    if whole is not None and len(gpu.instances) == 1:
        return whole.values
    cut = [instance for key, instance in gpu.instances.items() if key != WHOLE]
    values: dict[Field, Number] = dict(whole.values) if whole is not None else {}
    for of in dict.fromkeys(of for instance in cut for of in instance.values):
        shown = [(instance, instance.values[of]) for instance in cut if of in instance.values]
        if of in _SUMMED:
            values[of] = sum(value for _, value in shown)
        elif of in _SHARES:
            values[of] = sum(value * _part(instance) for instance, value in shown)
        else:
            values[of] = max(values.get(of, shown[0][1]), *(value for _, value in shown))
    return values


def _part(instance: Instance) -> float:
    """Return the instance's share of a GPU's compute slices; all of it without a share in its profile."""
    found = _SLICES.match(instance.profile)
    return int(found[1]) / _SLICES_OF_GPU if found else 1.0


def _counts(instances: Iterable[Instance]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for instance in instances:
        for code, number in instance.xids.items():
            counts[code] = max(number, counts.get(code, 0))
    return tuple(sorted(counts.items()))


def _watches(instances: Iterable[Instance]) -> tuple[tuple[str, tuple[int, str]], ...]:
    worst: dict[str, tuple[int, str]] = {}
    for instance in instances:
        for watch, told in instance.watches.items():
            worst[watch] = max(told, worst.get(watch, told))
    return tuple(worst.items())


def instance_of(draft: Draft, labels: Mapping[str, str]) -> Instance | None:
    """Return the instance of a series, with the holder in its labels; None for a switch, a CPU, or another non-GPU."""
    uuid = label_of(labels, UUID)
    if not uuid:
        return None
    if not draft.driver:
        draft.driver = label_of(labels, DRIVER)
    gpu = draft.gpus.get(uuid)
    if gpu is None:
        gpu = draft.gpus[uuid] = Gpu(uuid)
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
"""Label value of a field with one series per value: the XID, watch or clock event, and a watch's error code."""


def about(of: Field, labels: Mapping[str, str]) -> About:
    """Return the label value of a series of such a field."""
    if of is Field.XID_COUNT:
        return number_of(labels, XID_CODE), ""
    if of is Field.WATCH:
        return label_of(labels, WATCH_NAME), label_of(labels, WATCH_CODE)
    return label_of(labels, EVENT_NAME), ""


def count(instance: Instance, of: Field, about: About, value: int) -> None:
    """Add one value of such a series; ignore one without a label value."""
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
    """Add one value of any other series."""
    known = instance.values.get(of)
    if known is None or value > known:
        instance.values[of] = value
