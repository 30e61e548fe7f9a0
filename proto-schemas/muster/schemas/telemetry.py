"""What is measured and printed: bodies on `telemetry.<cluster>.<node>` and `logs.<cluster>.<job>`. Never facts.

Their streams keep them for a short while only; whoever folds a log must not need them.
"""

from enum import IntEnum, StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Text, Wire
from muster.schemas.facts.node import GPUS_PER_NODE_MAX

OUTPUT_LINES_MAX = 256

Measured = Annotated[float, Field(allow_inf_nan=False)]
"""A number that JSON can hold: drivers do report NaN, and who passes it on stops every page that reads it."""


class WatchLevel(IntEnum):
    """How a watch of DCGM judges a GPU; the numbers are DCGM's."""

    PASS = 0
    WARN = 10
    FAIL = 20


class WatchReading(Wire):
    """One health watch of DCGM. watch: PCIE, NVLINK, MEM, ... code: DCGM_FR_..., "" while it passes."""

    watch: Label
    level: WatchLevel = WatchLevel.PASS
    code: str = ""


class DeviceReading(Wire):
    """The part of a `DeviceSample` that views and sums over a fleet need; whoever reads no more decodes no more."""

    index: Annotated[int, Field(ge=0, lt=GPUS_PER_NODE_MAX)]
    uuid: str
    utilisation_pct: Measured
    memory_used_mib: int
    memory_total_mib: int
    power_w: Measured
    temperature_c: Measured
    job_ids: tuple[str, ...] = ()


class DeviceSample(DeviceReading):
    """One GPU at one moment. job_ids: who holds it. None: the exporter does not show it.

    utilisation_pct: 0 to 100, DCGM's DEV_GPU_UTIL, which says no more than that something ran. sm_active_pct,
    tensor_active_pct, dram_active_pct: 0 to 100, from DCGM's PROF fields. energy_mj: counter. nvlink_bytes_s,
    pcie_tx_bytes_s, pcie_rx_bytes_s: rates. pcie_replays, ecc_sbe, ecc_dbe, rows_remapped_sbe, rows_remapped_dbe:
    counters. remap_pending, remap_failed: flags. xid: the newest code, which never clears. xid_counts: (code, how many
    in the exporter's window), where it counts them. recovery_action: as DCGM recommends it, "" for none. watches: DCGM
    health. throttled: reasons of clock events. owners: as the page names who holds it (namespace/pod), where it is not
    known which jobs these are. lacking: fields without None that the page does not show; they are 0 here.
    """

    sm_active_pct: Measured | None = None
    tensor_active_pct: Measured | None = None
    dram_active_pct: Measured | None = None
    memory_temperature_c: Measured | None = None
    energy_mj: int | None = None
    nvlink_bytes_s: Measured | None = None
    pcie_tx_bytes_s: Measured | None = None
    pcie_rx_bytes_s: Measured | None = None
    pcie_replays: int | None = None
    ecc_sbe: int | None = None
    ecc_dbe: int | None = None
    rows_remapped_sbe: int | None = None
    rows_remapped_dbe: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    xid: int | None = None
    xid_counts: tuple[tuple[int, int], ...] = ()
    recovery_action: str = ""
    watches: tuple[WatchReading, ...] = ()
    throttled: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


class ExporterState(StrEnum):
    """What the node's page says of its exporter. stale: it answers, and what it says does not change.

    hung: it takes the connection and does not answer in time. down: it refuses the connection. nonsense: its page
    cannot be read.
    """

    OK = "ok"
    STALE = "stale"
    HUNG = "hung"
    DOWN = "down"
    NONSENSE = "nonsense"


class NodeReading(Wire):
    """The same part of a `NodeSample`."""

    node: str
    at: InstantNs
    gpu_model: str = ""
    devices: Annotated[tuple[DeviceReading, ...], Field(max_length=GPUS_PER_NODE_MAX)] = ()


class NodeSample(NodeReading):
    """All GPUs of one node at one moment. gpus_expected: as the log describes the node; None: not known.

    missing: uuids of expected devices that the page does not show. driver: version. error: of the scrape.
    """

    devices: Annotated[tuple[DeviceSample, ...], Field(max_length=GPUS_PER_NODE_MAX)] = ()
    exporter: ExporterState = ExporterState.OK
    gpus_expected: int | None = None
    missing: tuple[str, ...] = ()
    driver: str = ""
    error: Text = ""
    interval_s: Measured = 0.0


class OutputLines(Wire):
    """What one replica of a job printed since the last message."""

    job_id: str
    attempt: int
    at: InstantNs
    group: int = 0
    replica: int = 0
    lines: Annotated[tuple[Text, ...], Field(max_length=OUTPUT_LINES_MAX)] = ()
