"""One table from what DCGM and its exporter call things, in every generation, to what Muster calls them.

DCGM renames fields and keeps their numbers; the exporter prints either name. 1.x of it printed names of its own, in
lower case. Where a name stands for another unit the table says how to convert. Sources: DCGM's field identifiers up to
4.7, dcgm-exporter's counter files from 1.x to 4.x.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

Number = int | float
DIGITS_MAX = 19
"""Maximum digits of a whole number: more do not fit 64 bits."""
PCT_DIGITS = 4
"""Digits of a percentage: the exporter prints shares with six digits behind the point."""


class Field(StrEnum):
    """A measured quantity, in Muster's units: percent, MiB, W, degrees Celsius, mJ, bytes per second."""

    UTILISATION_PCT = "utilisation_pct"
    ENGINE_PCT = "engine_pct"
    SM_PCT = "sm_active_pct"
    TENSOR_PCT = "tensor_active_pct"
    DRAM_PCT = "dram_active_pct"
    MEMORY_FREE_MIB = "memory_free_mib"
    MEMORY_USED_MIB = "memory_used_mib"
    MEMORY_TOTAL_MIB = "memory_total_mib"
    POWER_W = "power_w"
    TEMPERATURE_C = "temperature_c"
    MEMORY_TEMPERATURE_C = "memory_temperature_c"
    ENERGY_MJ = "energy_mj"
    NVLINK_BYTES_S = "nvlink_bytes_s"
    NVLINK_TX_BYTES_S = "nvlink_tx_bytes_s"
    NVLINK_RX_BYTES_S = "nvlink_rx_bytes_s"
    PCIE_TX_BYTES_S = "pcie_tx_bytes_s"
    PCIE_RX_BYTES_S = "pcie_rx_bytes_s"
    PCIE_REPLAYS = "pcie_replays"
    ECC_SBE = "ecc_sbe"
    ECC_DBE = "ecc_dbe"
    ECC_SBE_EVER = "ecc_sbe_ever"
    ECC_DBE_EVER = "ecc_dbe_ever"
    ROWS_SBE = "rows_remapped_sbe"
    ROWS_DBE = "rows_remapped_dbe"
    REMAP_PENDING = "remap_pending"
    REMAP_FAILED = "remap_failed"
    RETIREMENT_PENDING = "retirement_pending"
    XID = "xid"
    RECOVERY = "recovery_action"
    XID_COUNT = "xid_count"
    WATCH = "watch"
    CLOCK_EVENT = "clock_event"


LABELLED = frozenset({Field.XID_COUNT, Field.WATCH, Field.CLOCK_EVENT})
"""Fields of which there is one series for each value of a label."""


def _same(value: Number) -> Number:
    return value


def _of_ratio(value: Number) -> Number:
    return round(100.0 * value, PCT_DIGITS)


def _of_percent_or_ratio(value: Number) -> Number:
    """GPU_UTIL_RATIO is field 203 in DCGM 4.6, whole per cents, and field 1613 from 4.7 on, a share.

    The exporter prints the one as "57" and the other as "0.570000", so the type of the number tells.
    """
    return _of_ratio(value) if isinstance(value, float) else value


def _of_bytes(value: Number) -> Number:
    return value / 2**20


def _of_joules(value: Number) -> Number:
    return 1_000 * value


def _of_megabytes(value: Number) -> Number:
    return 1e6 * value


@dataclass(frozen=True, slots=True)
class Meaning:
    """The field of a series, and the conversion of its values to Muster's unit."""

    field: Field
    convert: Callable[[Number], Number] = _same

    @property
    def is_converted(self) -> bool:
        """Return whether the value is converted; False if it is kept as printed."""
        return self.convert is not _same


_DEV = "DCGM_FI_DEV_"
_PROF = "DCGM_FI_PROF_"


def _table() -> dict[str, Meaning]:
    table: dict[str, Meaning] = {}

    def add(field: Field, *names: str, convert: Callable[[Number], Number] = _same) -> None:
        for name in names:
            assert name not in table, f"{name} means one thing"
            table[name] = Meaning(field, convert)

    add(Field.UTILISATION_PCT, f"{_DEV}GPU_UTIL", "dcgm_gpu_utilization")
    add(Field.UTILISATION_PCT, f"{_DEV}GPU_UTIL_RATIO", convert=_of_percent_or_ratio)
    for field, old, new in (
        (Field.ENGINE_PCT, "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
        (Field.SM_PCT, "SM_ACTIVE", "SM_UTIL_RATIO"),
        (Field.TENSOR_PCT, "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
        (Field.DRAM_PCT, "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
    ):
        add(field, f"{_PROF}{old}", f"{_PROF}{new}", f"dcgm_fi_prof_{old.lower()}", convert=_of_ratio)
    for field, of in (
        (Field.MEMORY_FREE_MIB, "FREE"),
        (Field.MEMORY_USED_MIB, "USED"),
        (Field.MEMORY_TOTAL_MIB, "TOTAL"),
    ):
        add(field, f"{_DEV}FB_{of}", f"dcgm_fb_{of.lower()}")
    add(Field.MEMORY_FREE_MIB, f"{_DEV}FB_FREE_BYTES", convert=_of_bytes)
    add(Field.MEMORY_USED_MIB, f"{_DEV}FB_USED_BYTES", convert=_of_bytes)
    add(Field.MEMORY_TOTAL_MIB, f"{_DEV}FB_CAPACITY_BYTES", convert=_of_bytes)
    add(Field.POWER_W, f"{_DEV}POWER_USAGE", f"{_DEV}BOARD_POWER_WATTS", "dcgm_power_usage")
    add(Field.TEMPERATURE_C, f"{_DEV}GPU_TEMP", f"{_DEV}GPU_TEMP_CELSIUS", "dcgm_gpu_temp")
    add(Field.MEMORY_TEMPERATURE_C, f"{_DEV}MEMORY_TEMP", f"{_DEV}MEMORY_TEMP_CELSIUS", "dcgm_memory_temp")
    add(Field.ENERGY_MJ, f"{_DEV}TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption")
    add(Field.ENERGY_MJ, f"{_DEV}GPU_ENERGY_JOULES_TOTAL", convert=_of_joules)
    _add_links(add)
    _add_errors(add)
    return table


def _add_links(add: Callable[..., None]) -> None:
    add(
        Field.NVLINK_BYTES_S,
        f"{_DEV}NVLINK_BANDWIDTH_TOTAL", f"{_DEV}NVLINK_THROUGHPUT_TOTAL", "dcgm_nvlink_bandwidth_total",
        convert=_of_megabytes,
    )  # fmt: skip
    add(Field.NVLINK_BYTES_S, f"{_DEV}NVLINK_THROUGHPUT_BYTES_PER_SECOND")
    add(Field.NVLINK_TX_BYTES_S, f"{_PROF}NVLINK_TX_BYTES")
    add(Field.NVLINK_RX_BYTES_S, f"{_PROF}NVLINK_RX_BYTES")
    add(Field.PCIE_TX_BYTES_S, f"{_PROF}PCIE_TX_BYTES", "dcgm_fi_prof_pcie_tx_bytes")
    add(Field.PCIE_RX_BYTES_S, f"{_PROF}PCIE_RX_BYTES", "dcgm_fi_prof_pcie_rx_bytes")
    add(
        Field.PCIE_REPLAYS,
        f"{_DEV}PCIE_REPLAY_COUNTER", f"{_DEV}PCIE_REPLAY_TOTAL", "dcgm_pcie_replay_counter",
    )  # fmt: skip


def _add_errors(add: Callable[..., None]) -> None:
    for field, bits, kept, old in (
        (Field.ECC_SBE, "SBE", "VOL", "dcgm_ecc_sbe_volatile_total"),
        (Field.ECC_DBE, "DBE", "VOL", "dcgm_ecc_dbe_volatile_total"),
        (Field.ECC_SBE_EVER, "SBE", "AGG", "dcgm_ecc_sbe_aggregate_total"),
        (Field.ECC_DBE_EVER, "DBE", "AGG", "dcgm_ecc_dbe_aggregate_total"),
    ):
        add(field, f"{_DEV}ECC_{bits}_{kept}_TOTAL", old)
    add(Field.ROWS_SBE, f"{_DEV}CORRECTABLE_REMAPPED_ROWS", f"{_DEV}ROW_REMAP_CORRECTABLE_TOTAL")
    add(Field.ROWS_DBE, f"{_DEV}UNCORRECTABLE_REMAPPED_ROWS", f"{_DEV}ROW_REMAP_UNCORRECTABLE_TOTAL")
    add(Field.REMAP_FAILED, f"{_DEV}ROW_REMAP_FAILURE", f"{_DEV}ROW_REMAP_FAILED")
    add(Field.REMAP_PENDING, f"{_DEV}ROW_REMAP_PENDING")
    add(
        Field.RETIREMENT_PENDING,
        f"{_DEV}RETIRED_PENDING", f"{_DEV}PAGE_RETIRED_PENDING", "dcgm_retired_pages_pending",
    )  # fmt: skip
    add(Field.XID, f"{_DEV}XID_ERRORS", f"{_DEV}XID_ERROR", "dcgm_xid_errors")
    add(Field.RECOVERY, f"{_DEV}GET_GPU_RECOVERY_ACTION", f"{_DEV}GPU_RECOVERY_ACTION")
    add(Field.XID_COUNT, "DCGM_EXP_XID_ERRORS_COUNT")
    add(Field.WATCH, "DCGM_EXP_GPU_HEALTH_STATUS")
    add(Field.CLOCK_EVENT, "DCGM_EXP_CLOCK_EVENTS_COUNT")


MEANINGS: Mapping[str, Meaning] = MappingProxyType(_table())
"""Meanings by the name of a series; other series are not read."""

UUID = ("UUID", "uuid", "gpu_uuid")
INDEX = ("gpu",)
MODEL = ("modelName", "model_name")
HOST = ("hostname", "Hostname")
INSTANCE = ("GPU_I_ID",)
PROFILE = ("GPU_I_PROFILE",)
DRIVER = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
POD = ("exported_pod", "pod", "pod_name")
NAMESPACE = ("exported_namespace", "namespace", "pod_namespace")
JOB = ("hpc_job", "muster_dev_job", "label_muster_dev_job")
XID_CODE = ("xid",)
XID_WINDOW = ("window_size_in_ms",)
WATCH_NAME = ("health_watch",)
WATCH_CODE = ("health_error_code",)
EVENT_NAME = ("clock_event",)
"""Labels, the surest first. A page that came through Prometheus has the exporter's own pod under `pod`."""

RECOVERY_ACTIONS = ("", "reset", "reboot", "drain-p2p", "drain-and-reset")
"""Names by DCGM's number (NVML_GPU_RECOVERY_ACTION_*)."""


WORD_CHARS_MAX = 200
"""Maximum length of a label's value; longer ones are cut, since a fact's text holds it with a prefix."""


def label_of(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the value of the first of these labels that is not empty, else "". At most WORD_CHARS_MAX characters."""
    for name in names:
        value = labels.get(name)
        if value:
            return value[:WORD_CHARS_MAX]
    return ""


def number_of(labels: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the whole number in such a label; None without one, or if the number cannot be an index."""
    text = label_of(labels, names)
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= DIGITS_MAX else None


_BLANK_INT64 = 0x7FFFFFFFFFFFFFF0
_BLANK_INT32 = 0x7FFFFFF0
_BLANKS_INT32 = frozenset(range(_BLANK_INT32, _BLANK_INT32 + 4))
_BLANK_FP64 = 140_737_488_355_328.0
_BLANKS_FP64 = frozenset(_BLANK_FP64 + step for step in range(4))


LEAST = -1e9
"""Lower limit of all measured values; a lower value is broken."""


def is_blank(value: Number) -> bool:
    """DCGM has nothing to say: blank, not found, not supported, not permitted; or it is no number that can be measured.

    A number of 64 bits at or above 0x7ffffffffffffff0, of 32 bits one of the four from 0x7ffffff0 on, a float one of
    the four from 2^47 on (dcgm_structs.h). A counter that passes one of these is blank for one reading.
    """
    if value != value or value >= _BLANK_INT64 or value < LEAST:  # noqa: PLR0124 - NaN differs from itself
        return True
    return value >= _BLANK_INT32 and (value in _BLANKS_INT32 or value in _BLANKS_FP64)
