"""From a page, and what the log knows of its node, to the one message that is published of it."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from muster.core import Instant
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, NodeJoined
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample, WatchLevel, WatchReading
from muster.telemetry.core.names import RECOVERY_ACTIONS, Field, Number
from muster.telemetry.core.pages import WHOLE, Gpu, Instance, Page

JobsOfPod = Callable[[str], str | None]
"""The job of a pod (namespace/name), None if it is of none that is live."""

_SUMMED = frozenset({Field.MEMORY_FREE_MIB, Field.MEMORY_USED_MIB, Field.MEMORY_TOTAL_MIB})
_SHARES = frozenset({Field.ENGINE_PCT, Field.SM_PCT, Field.TENSOR_PCT, Field.DRAM_PCT})
_SLICES = re.compile(r"(\d+)g\.")
_SLICES_OF_GPU = 7.0
"""Compute slices of a GPU that MIG cuts: a profile `2g.20gb` has two of them (NVIDIA MIG user guide)."""
_IDLE_EVENT = "gpu_idle"
WATCHES_KEPT = 1_024
MEMORY_MIB_MAX = 2**40
"""No GPU has more, nor have all its instances together."""
_LEVELS = {level.value: level for level in WatchLevel}
Values = Mapping[Field, Number]


def node_sample(
    node: str,
    page: Page,
    *,
    at: Instant,
    description: NodeJoined | None,
    holders: Mapping[str, Mapping[str, int]],
    job_of_pod: JobsOfPod,
    is_live: Callable[[str], bool],
    state: ExporterState = ExporterState.OK,
    interval_s: float = 0.0,
) -> NodeSample:
    """What the page says. description: of the node, None if the log has none. holders: by uuid, jobs of the log.

    Whom a page names holds a GPU, if that is a live job; else whom the log names.
    """
    places = {} if description is None else {uuid: index for index, uuid in description.present.items()}
    devices = []
    for place, gpu in enumerate(page.gpus.values()):
        index = places.get(gpu.uuid, place if gpu.index is None else gpu.index)
        if index < GPUS_PER_NODE_MAX:
            devices.append(_device(gpu, index, holders.get(gpu.uuid, {}), job_of_pod, is_live))
    model = description.gpu_model if description is not None else ""
    return NodeSample(
        node=node,
        at=at,
        gpu_model=model or next((gpu.model for gpu in page.gpus.values() if gpu.model), ""),
        devices=tuple(sorted(devices, key=lambda device: device.index)[:GPUS_PER_NODE_MAX]),
        exporter=state,
        gpus_expected=len(places) if description is not None else None,
        missing=missing_of(places, page.gpus),
        driver=page.driver,
        interval_s=interval_s,
    )


def silent_sample(
    node: str, state: ExporterState, error: str, *, at: Instant, description: NodeJoined | None, interval_s: float
) -> NodeSample:
    """The message of a node whose page could not be had: nothing is known of its GPUs, not even that they are gone."""
    return NodeSample(
        node=node,
        at=at,
        gpu_model=description.gpu_model if description is not None else "",
        exporter=state,
        gpus_expected=len(description.present) if description is not None else None,
        error=error[:TEXT_CHARS_MAX],
        interval_s=interval_s,
    )


def missing_of(expected: Mapping[str, int], shown: Iterable[str]) -> tuple[str, ...]:
    """Expected devices that a page does not show, by their places.

    () where the log has names of places and not of devices, which shows by none of them being on the page: then only
    their number says that one is missing. A page without any GPU misses all of them.
    """
    seen = set(shown)
    if seen and not any(uuid in seen for uuid in expected):
        return ()
    return tuple(sorted((uuid for uuid in expected if uuid not in seen), key=lambda uuid: expected[uuid]))


def _device(
    gpu: Gpu, index: int, holders: Mapping[str, int], job_of_pod: JobsOfPod, is_live: Callable[[str], bool]
) -> DeviceSample:
    values = _values(gpu)
    named = _named(gpu, job_of_pod, is_live)
    utilisation = values.get(Field.UTILISATION_PCT, values.get(Field.ENGINE_PCT))
    used, free = values.get(Field.MEMORY_USED_MIB), values.get(Field.MEMORY_FREE_MIB)
    total = values.get(Field.MEMORY_TOTAL_MIB)
    if total is None and used is not None and free is not None:
        total = used + free
    power, temperature = values.get(Field.POWER_W), values.get(Field.TEMPERATURE_C)
    told = {
        "utilisation_pct": utilisation,
        "memory_used_mib": used,
        "memory_total_mib": total,
        "power_w": power,
        "temperature_c": temperature,
    }
    return DeviceSample(
        index=index,
        uuid=gpu.uuid,
        utilisation_pct=utilisation or 0.0,
        memory_used_mib=int(min(used or 0, MEMORY_MIB_MAX)),
        memory_total_mib=int(min(total or 0, MEMORY_MIB_MAX)),
        power_w=power or 0.0,
        temperature_c=temperature or 0.0,
        job_ids=named or tuple(holders),
        sm_active_pct=values.get(Field.SM_PCT),
        tensor_active_pct=values.get(Field.TENSOR_PCT),
        dram_active_pct=values.get(Field.DRAM_PCT),
        memory_temperature_c=values.get(Field.MEMORY_TEMPERATURE_C),
        energy_mj=_whole(values.get(Field.ENERGY_MJ)),
        nvlink_bytes_s=_links(values),
        pcie_tx_bytes_s=values.get(Field.PCIE_TX_BYTES_S),
        pcie_rx_bytes_s=values.get(Field.PCIE_RX_BYTES_S),
        pcie_replays=_whole(values.get(Field.PCIE_REPLAYS)),
        ecc_sbe=_whole(values.get(Field.ECC_SBE, values.get(Field.ECC_SBE_EVER))),
        ecc_dbe=_whole(values.get(Field.ECC_DBE, values.get(Field.ECC_DBE_EVER))),
        rows_remapped_sbe=_whole(values.get(Field.ROWS_SBE)),
        rows_remapped_dbe=_whole(values.get(Field.ROWS_DBE)),
        remap_pending=_flag(values.get(Field.REMAP_PENDING, values.get(Field.RETIREMENT_PENDING))),
        remap_failed=_flag(values.get(Field.REMAP_FAILED)),
        xid=_whole(values.get(Field.XID)),
        xid_counts=_counts(gpu),
        recovery_action=_action(values.get(Field.RECOVERY)),
        watches=_watches(gpu),
        throttled=_throttled(gpu),
        owners=() if named else tuple(dict.fromkeys(owner for one in gpu.instances.values() for owner in one.owners)),
        lacking=tuple(name for name, value in told.items() if value is None),
    )


def _named(gpu: Gpu, job_of_pod: JobsOfPod, is_live: Callable[[str], bool]) -> tuple[str, ...]:
    """Live jobs that the page names: by their ids (job-mapping directory, labels of pods), else by their pods."""
    found: dict[str, None] = {}
    for instance in gpu.instances.values():
        for told in instance.jobs:
            if is_live(job := told.upper()):
                found[job] = None
    if not found:
        for instance in gpu.instances.values():
            for owner in instance.owners:
                if (job_id := job_of_pod(owner)) is not None:
                    found[job_id] = None
    return tuple(found)


def _values(gpu: Gpu) -> Values:
    """Of the GPU as a whole, whatever instances it is cut into."""
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
    """Which share of a GPU's compute slices an instance has; all of it, if its profile does not say."""
    found = _SLICES.match(instance.profile)
    return int(found[1]) / _SLICES_OF_GPU if found else 1.0


def _links(values: Values) -> Number | None:
    sent, received = values.get(Field.NVLINK_TX_BYTES_S), values.get(Field.NVLINK_RX_BYTES_S)
    if sent is None and received is None:
        return values.get(Field.NVLINK_BYTES_S)
    return (sent or 0) + (received or 0)


def _counts(gpu: Gpu) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for instance in gpu.instances.values():
        for code, count in instance.xids.items():
            counts[code] = max(count, counts.get(code, 0))
    return tuple(sorted(counts.items()))


def _watches(gpu: Gpu) -> tuple[WatchReading, ...]:
    """One for each watch, the worst of the instances."""
    worst: dict[str, tuple[int, str]] = {}
    for instance in gpu.instances.values():
        for watch, told in instance.watches.items():
            worst[watch] = max(told, worst.get(watch, told))
    return tuple(_watch(watch, level, code) for watch, (level, code) in worst.items())


@lru_cache(maxsize=WATCHES_KEPT)
def _watch(watch: str, level: int, code: str) -> WatchReading:
    """A level that DCGM does not have counts as a failure. Nearly all of a fleet's are the same few."""
    return WatchReading(watch=watch, level=_LEVELS.get(level, WatchLevel.FAIL), code=code)


def _throttled(gpu: Gpu) -> tuple[str, ...]:
    """Why clocks were held down; that a GPU has nothing to do is no reason."""
    events = {event for instance in gpu.instances.values() for event in instance.events}
    return tuple(sorted(events - {_IDLE_EVENT}))


def _action(value: Number | None) -> str:
    """DCGM's advice; a number without a name stands as it is, so that nobody takes it for none."""
    if value is None:
        return ""
    number = int(value)
    return RECOVERY_ACTIONS[number] if 0 <= number < len(RECOVERY_ACTIONS) else str(number)


def _whole(value: Number | None) -> int | None:
    return None if value is None else int(value)


def _flag(value: Number | None) -> bool | None:
    return None if value is None else value > 0
