"""The page of one simulated node, as dcgm-exporter 4.x writes it with a full counter file. Pure.

The order of names and labels is the exporter's (internal/pkg/rendermetrics, 4.x): GPU, UUID, bus, device, model, host,
driver, then what is particular to the series, then whom the kubelet's PodResources name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from muster.core import Instant
from muster.telemetry.simulator.gpus import RESERVED_MIB, FaultKind, Shown, SimulatedGpu

WATCHES = ("PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER", "ALL")
DRIVER = "580.105.08"
WINDOW_MS = 300_000
_BUSES = ("53", "64", "75", "86", "97", "A8", "B9", "CA")
"""Bus ids of a p5.48xlarge."""
MODEL_NAMES = {"H100": "NVIDIA H100 80GB HBM3", "A10": "NVIDIA A10", "T4": "Tesla T4"}
Value = Callable[[SimulatedGpu, Shown], str]


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    kind: str
    told: str
    value: Value


def _fault(kind: FaultKind) -> Value:
    return lambda gpu, _: str(round(gpu.faults.values.get(kind, 0.0)))


def _flag(kind: FaultKind) -> Value:
    return lambda gpu, _: "1" if kind in gpu.faults.values else "0"


_G, _C = "gauge", "counter"
_D, _P = "DCGM_FI_DEV_", "DCGM_FI_PROF_"
SERIES: tuple[_Series, ...] = (
    _Series(f"{_D}SM_CLOCK", _G, "SM clock frequency (in MHz).", lambda _, now: "1980" if now.busy_pct else "345"),
    _Series(f"{_D}MEM_CLOCK", _G, "Memory clock frequency (in MHz).", lambda _, __: "2619"),
    _Series(f"{_D}MEMORY_TEMP", _G, "Memory temperature (in C).", lambda _, now: str(now.memory_temperature_c)),
    _Series(f"{_D}GPU_TEMP", _G, "GPU temperature (in C).", lambda _, now: str(now.temperature_c)),
    _Series(f"{_D}POWER_USAGE", _G, "Power draw (in W).", lambda _, now: f"{now.power_w:f}"),
    _Series(
        f"{_D}TOTAL_ENERGY_CONSUMPTION", _C, "Total energy consumption since boot (in mJ).",
        lambda _, now: str(now.energy_mj),
    ),
    _Series(f"{_D}PCIE_REPLAY_COUNTER", _C, "Total number of PCIe retries.", lambda _, __: "0"),
    _Series(f"{_D}GPU_UTIL", _G, "GPU utilization (in %).", lambda _, now: str(now.busy_pct)),
    _Series(f"{_D}MEM_COPY_UTIL", _G, "Memory utilization (in %).", lambda _, now: str(round(100 * now.dram))),
    _Series(f"{_D}XID_ERRORS", _G, "Value of the last XID error encountered.", lambda gpu, _: str(gpu.faults.last_xid)),
    _Series(f"{_D}FB_FREE", _G, "Framebuffer memory free (in MiB).", lambda _, now: str(now.memory_free_mib)),
    _Series(f"{_D}FB_USED", _G, "Framebuffer memory used (in MiB).", lambda _, now: str(now.memory_used_mib)),
    _Series(f"{_D}FB_RESERVED", _G, "Framebuffer memory reserved (in MiB).", lambda _, __: str(RESERVED_MIB)),
    _Series(
        f"{_D}NVLINK_BANDWIDTH_TOTAL", _C, "Total number of NVLink bandwidth counters for all lanes.",
        lambda _, now: str(now.nvlink_mb_s),
    ),
    _Series(
        f"{_D}UNCORRECTABLE_REMAPPED_ROWS", _C, "Number of remapped rows for uncorrectable errors",
        _flag(FaultKind.REMAP_PENDING),
    ),
    _Series(f"{_D}CORRECTABLE_REMAPPED_ROWS", _C, "Number of remapped rows for correctable errors", lambda _, __: "0"),
    _Series(f"{_D}ROW_REMAP_FAILURE", _G, "Whether remapping of rows has failed", _flag(FaultKind.REMAP_FAILED)),
    _Series(f"{_D}ROW_REMAP_PENDING", _G, "Whether remapping of rows is pending", _flag(FaultKind.REMAP_PENDING)),
    _Series(f"{_D}ECC_SBE_VOL_TOTAL", _C, "Total number of single-bit volatile ECC errors.", _fault(FaultKind.ECC_SBE)),
    _Series(f"{_D}ECC_DBE_VOL_TOTAL", _C, "Total number of double-bit volatile ECC errors.", _fault(FaultKind.ECC_DBE)),
    _Series(f"{_D}GET_GPU_RECOVERY_ACTION", _G, "Recommended action for recovery.", _fault(FaultKind.RECOVERY)),
    _Series(
        f"{_P}GR_ENGINE_ACTIVE", _G, "Ratio of time the graphics engine is active.", lambda _, now: f"{now.engine:f}"
    ),
    _Series(
        f"{_P}SM_ACTIVE", _G, "The ratio of cycles an SM has at least 1 warp assigned.", lambda _, now: f"{now.sm:f}"
    ),
    _Series(
        f"{_P}PIPE_TENSOR_ACTIVE", _G, "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda _, now: f"{now.tensor:f}",
    ),
    _Series(
        f"{_P}DRAM_ACTIVE", _G, "Ratio of cycles the device memory interface is active sending or receiving data.",
        lambda _, now: f"{now.dram:f}",
    ),
    _Series(
        f"{_P}PCIE_TX_BYTES", _G, "The rate of data transmitted over the PCIe bus, in bytes per second.",
        lambda _, now: str(now.pcie_tx),
    ),
    _Series(
        f"{_P}PCIE_RX_BYTES", _G, "The rate of data received over the PCIe bus, in bytes per second.",
        lambda _, now: str(now.pcie_rx),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a GPU's series: `head` up to the driver, then `owner`, its holder, "" without one."""

    head: str
    owner: str = ""


def labels_of(gpu: SimulatedGpu, node: str, *, pod: str = "", namespace: str = "", job: str = "") -> Labels:
    """job: as the job-mapping directory names it."""
    bus = _BUSES[gpu.index] if gpu.index < len(_BUSES) else f"{0xD0 + gpu.index:02X}"
    head = (
        f'gpu="{gpu.index}",UUID="{gpu.uuid}",pci_bus_id="00000000:{bus}:00.0",device="nvidia{gpu.index}",'
        f'modelName="{MODEL_NAMES.get(gpu.model, gpu.model)}",hostname="{node}",DCGM_FI_DRIVER_VERSION="{DRIVER}"'
    )
    if not pod:
        return Labels(head)
    return Labels(head, f',container="main",hpc_job="{job}",namespace="{namespace}",pod="{pod}",pod_uid=""')


def page(gpus: Sequence[tuple[SimulatedGpu, Shown, Labels]], at: Instant) -> str:
    """Return the page of the GPUs that are on the bus."""
    lines: list[str] = []
    for series in SERIES:
        lines.append(f"# HELP {series.name} {series.told}\n# TYPE {series.name} {series.kind}")
        name, value = series.name, series.value
        lines += [f"{name}{{{told.head}{told.owner}}} {value(gpu, now)}" for gpu, now, told in gpus]
    lines += _clock_events(gpus)
    lines += _health(gpus)
    lines += _xids(gpus, at)
    return "\n".join(lines) + "\n"


def _head(name: str, told: str) -> str:
    return f"# HELP {name} {told}\n# TYPE {name} gauge"


def _clock_events(gpus: Sequence[tuple[SimulatedGpu, Shown, Labels]]) -> Iterator[str]:
    name = "DCGM_EXP_CLOCK_EVENTS_COUNT"
    yield _head(
        name, "Count of clock events within the user-specified time window (see clock-events-count-window-size param)."
    )
    for gpu, now, told in gpus:
        event = "hw_thermal" if gpu.faults.values.keys() & {FaultKind.THROTTLED, FaultKind.HOT} else ""
        if not event and not now.busy_pct:
            event = "gpu_idle"
        if event:
            yield f'{name}{{{told.head},clock_event="{event}",window_size_in_ms="{WINDOW_MS}"{told.owner}}} 1'


def _health(gpus: Sequence[tuple[SimulatedGpu, Shown, Labels]]) -> Iterator[str]:
    name = "DCGM_EXP_GPU_HEALTH_STATUS"
    yield _head(name, "GPU health status")
    for gpu, _, told in gpus:
        level = round(gpu.faults.values.get(FaultKind.WATCH, 0.0))
        for watch in WATCHES:
            bad = level if watch in ("MEM", "ALL") else 0
            code = "DCGM_FR_UNCONTAINED_ERROR" if bad else ""
            yield f'{name}{{{told.head},health_error_code="{code}",health_watch="{watch}"{told.owner}}} {bad}'


def _xids(gpus: Sequence[tuple[SimulatedGpu, Shown, Labels]], at: Instant) -> Iterator[str]:
    name = "DCGM_EXP_XID_ERRORS_COUNT"
    yield _head(name, "Count of XID Errors within user-specified time window (see xid-count-window-size param).")
    for gpu, _, told in gpus:
        counted = gpu.faults.counted(at)
        if not counted:
            yield f'{name}{{{told.head},window_size_in_ms="{WINDOW_MS}"{told.owner}}} 0'
        for code, count in sorted(counted.items()):
            yield f'{name}{{{told.head},window_size_in_ms="{WINDOW_MS}",xid="{code}"{told.owner}}} {count}'
