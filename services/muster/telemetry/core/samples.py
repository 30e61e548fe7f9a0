"""The one message that is published of a node: from its page, and from what the log knows of the node. A page names
pods, which are related to jobs by how the agent names pods, or by their owner.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache

from muster.core import Instant
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, NodeJoined
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample, WatchLevel, WatchReading
from muster.telemetry.core.names import RECOVERY_ACTIONS, Number
from muster.telemetry.core.pages import GpuReading, Page, Shown

OWN_POD = re.compile(r"mj-([a-z2-7]{26})-\d+-\d+-\d+")
"""As the agent names the pods that it makes: job, attempt, group, replica."""
PARTS_MAX = 6
"""Maximum number of `-…` suffixes removed from a pod's name to find its owner: a JobSet's pod has four."""


def job_of_pod(owner: str, live: Container[str], origins: Mapping[str, str]) -> str | None:
    """Return the job of a pod, if it is one of `live`. owner: namespace/pod.

    origins: by namespace/name, jobs of objects that make their pods themselves.
    """
    namespace, _, pod = owner.rpartition("/")
    made = OWN_POD.fullmatch(pod)
    if made is not None:
        job_id = made[1].upper()
        return job_id if job_id in live else None
    name = pod
    for _ in range(PARTS_MAX if origins else 0):
        found = origins.get(f"{namespace}/{name}")
        if found is not None:
            return found if found in live else None
        name, dash, _ = name.rpartition("-")
        if not dash:
            break
    return None


JobsOfPod = Callable[[str], str | None]
"""Returns the job of a pod (namespace/name), None if it has no live job."""

_IDLE_EVENT = "gpu_idle"
WATCHES_KEPT = 1_024
MEMORY_MIB_MAX = 2**40
"""Upper limit of the memory of a GPU and of all its instances together."""
_LEVELS = {level.value: level for level in WatchLevel}
_FIXED = ("utilisation_pct", "memory_used_mib", "memory_total_mib", "power_w", "temperature_c")
"""Fields of a sample that are 0 where the page does not show them."""


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
    """Return the sample of a page. description: of the node, None without one. holders: by uuid, jobs of the log.

    The live job that the page names holds a GPU, else the job that the log names.
    """
    places = {} if description is None else {uuid: index for index, uuid in description.present.items()}
    devices = []
    for place, gpu in enumerate(page.gpus):
        index = places.get(gpu.uuid, place if gpu.driver_index is None else gpu.driver_index)
        if index < GPUS_PER_NODE_MAX:
            devices.append(_device(gpu, index, holders.get(gpu.uuid, {}), job_of_pod, is_live))
    model = description.gpu_model if description is not None else ""
    return NodeSample(
        node=node,
        at=at,
        gpu_model=model or next((gpu.model for gpu in page.gpus if gpu.model), ""),
        devices=tuple(sorted(devices, key=lambda device: device.index)[:GPUS_PER_NODE_MAX]),
        exporter=state,
        gpus_expected=len(places) if description is not None else None,
        missing=missing_of(places, (gpu.uuid for gpu in page.gpus)),
        driver=page.driver,
        interval_s=interval_s,
    )


def silent_sample(
    node: str, state: ExporterState, error: str, *, at: Instant, description: NodeJoined | None, interval_s: float
) -> NodeSample:
    """Return the message of a node whose page could not be read: the state of its GPUs is unknown."""
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
    gpu: GpuReading, index: int, holders: Mapping[str, int], job_of_pod: JobsOfPod, is_live: Callable[[str], bool]
) -> DeviceSample:
    shown = gpu.shown
    named = _named(gpu, job_of_pod, is_live)
    utilisation = shown.engine_pct if shown.utilisation_pct is None else shown.utilisation_pct
    used, total = shown.memory_used_mib, shown.memory_total_mib
    if total is None and used is not None and shown.memory_free_mib is not None:
        total = used + shown.memory_free_mib
    fixed = (utilisation, used, total, shown.power_w, shown.temperature_c)
    pending = shown.retirement_pending if shown.remap_pending is None else shown.remap_pending
    return DeviceSample(
        index=index,
        uuid=gpu.uuid,
        utilisation_pct=utilisation or 0.0,
        memory_used_mib=int(min(used or 0, MEMORY_MIB_MAX)),
        memory_total_mib=int(min(total or 0, MEMORY_MIB_MAX)),
        power_w=shown.power_w or 0.0,
        temperature_c=shown.temperature_c or 0.0,
        job_ids=named or tuple(holders),
        sm_active_pct=shown.sm_active_pct,
        tensor_active_pct=shown.tensor_active_pct,
        dram_active_pct=shown.dram_active_pct,
        memory_temperature_c=shown.memory_temperature_c,
        energy_mj=_whole(shown.energy_mj),
        nvlink_bytes_s=_links(shown),
        pcie_tx_bytes_s=shown.pcie_tx_bytes_s,
        pcie_rx_bytes_s=shown.pcie_rx_bytes_s,
        pcie_replays=_whole(shown.pcie_replays),
        ecc_sbe=_whole(shown.ecc_sbe_ever if shown.ecc_sbe is None else shown.ecc_sbe),
        ecc_dbe=_whole(shown.ecc_dbe_ever if shown.ecc_dbe is None else shown.ecc_dbe),
        rows_remapped_sbe=_whole(shown.rows_remapped_sbe),
        rows_remapped_dbe=_whole(shown.rows_remapped_dbe),
        remap_pending=_flag(pending),
        remap_failed=_flag(shown.remap_failed),
        xid=_whole(shown.xid),
        xid_counts=gpu.xid_counts,
        recovery_action=_action(shown.recovery_action),
        watches=_readings(gpu.watches),
        throttled=tuple(event for event in gpu.events if event != _IDLE_EVENT),
        owners=() if named else gpu.owners,
        lacking=_lacking(fixed) if None in fixed else (),
    )


def _named(gpu: GpuReading, job_of_pod: JobsOfPod, is_live: Callable[[str], bool]) -> tuple[str, ...]:
    """Live jobs that the page names: by their ids (job-mapping directory, labels of pods), else by their pods."""
    if gpu.jobs:
        found = tuple(dict.fromkeys(job for told in gpu.jobs if is_live(job := told.upper())))
        if found:
            return found
    jobs = map(job_of_pod, gpu.owners)
    return tuple(dict.fromkeys(job for job in jobs if job is not None))


def _lacking(fixed: Sequence[Number | None]) -> tuple[str, ...]:
    return tuple(name for name, value in zip(_FIXED, fixed, strict=True) if value is None)


def _links(shown: Shown) -> Number | None:
    sent, received = shown.nvlink_tx_bytes_s, shown.nvlink_rx_bytes_s
    if sent is None and received is None:
        return shown.nvlink_bytes_s
    return (sent or 0) + (received or 0)


@lru_cache(maxsize=WATCHES_KEPT)
def _readings(told: tuple[tuple[str, tuple[int, str]], ...]) -> tuple[WatchReading, ...]:
    """Return the watches' readings. A level that DCGM does not define counts as a failure. Most GPUs are equal."""
    return tuple(
        WatchReading(watch=watch, level=_LEVELS.get(level, WatchLevel.FAIL), code=code) for watch, (level, code) in told
    )


def _action(value: Number | None) -> str:
    """Return DCGM's advice; an unknown number stays a number, so that it is not taken for no advice."""
    if value is None:
        return ""
    number = int(value)
    return RECOVERY_ACTIONS[number] if 0 <= number < len(RECOVERY_ACTIONS) else str(number)


def _whole(value: Number | None) -> int | None:
    return None if value is None else int(value)


def _flag(value: Number | None) -> bool | None:
    return None if value is None else value > 0
