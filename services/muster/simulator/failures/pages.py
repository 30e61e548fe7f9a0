"""What a node's exporter shows while something of it is broken."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from muster.core import Instant
from muster.fabric.layout import device_uuids
from muster.schemas.telemetry import DeviceSample, NodeSample, WatchLevel, WatchReading
from muster.simulator.failures.calendar import Incident
from muster.simulator.failures.mix import Mend, Shown
from muster.simulator.failures.scene import GPUS, MODEL

WATCHES = ("PCIE", "NVLINK", "MEM", "THERMAL", "POWER", "DRIVER", "CONNECTX", "ALL")
_PASSES = {name: WatchReading(watch=name) for name in WATCHES}
_FAILS = {name: WatchReading(watch=name, level=WatchLevel.FAIL) for name in WATCHES}
WELL_MAX = 4096
"""Readings of GPUs that are well, kept to be shown again."""


@dataclass(slots=True)
class Hurt:
    """Something broken of one node. shows_at: when an event of it is shown; later again, if it was not mended."""

    incident: Incident
    node: str
    shows_at: Instant
    is_told: bool = False

    @property
    def is_shown(self) -> bool:
        """Whether the page can show it."""
        return self.incident.sign.shown not in (Shown.NOTHING, Shown.LOST)

    @property
    def lasts(self) -> bool:
        """Whether it is broken until it is mended; else it happened once."""
        return self.incident.mend is not Mend.NONE


def page(node: str, hurts: Sequence[Hurt], *, now: Instant, interval_s: float) -> NodeSample:
    """One reading of all GPUs of the node. Values are ours: no need to validate them."""
    uuids = device_uuids(node, GPUS)
    by_index: dict[int, list[Hurt]] = {}
    for hurt in hurts:
        by_index.setdefault(hurt.incident.device, []).append(hurt)
    gone = {index for index, some in by_index.items() if any(one.incident.sign.shown is Shown.MISSING for one in some)}
    devices = [
        _device(index, uuid, by_index[index], now) if index in by_index else _well(index, uuid)
        for index, uuid in enumerate(uuids)
        if index not in gone
    ]
    return NodeSample.model_construct(
        node=node,
        at=now,
        gpu_model=MODEL,
        devices=tuple(devices),
        gpus_expected=GPUS,
        missing=tuple(uuids[index] for index in sorted(gone)),
        interval_s=interval_s,
    )


@lru_cache(maxsize=WELL_MAX)
def _well(index: int, uuid: str) -> DeviceSample:
    return _device(index, uuid, (), Instant(0))


def _device(index: int, uuid: str, hurts: Sequence[Hurt], now: Instant) -> DeviceSample:
    signs = [hurt.incident.sign for hurt in hurts]
    failing = {sign.watch for sign in signs if sign.shown is Shown.WATCH}
    codes = [hurt.incident.sign.code for hurt in hurts if hurt.incident.sign.code and hurt.shows_at <= now]
    return DeviceSample.model_construct(
        index=index,
        uuid=uuid,
        utilisation_pct=100.0,
        memory_used_mib=70_000,
        memory_total_mib=81_559,
        power_w=600.0,
        temperature_c=60.0,
        remap_pending=any(sign.shown is Shown.PENDING for sign in signs),
        xid=codes[-1] if codes else 0,
        watches=tuple(_FAILS[name] if name in failing else _PASSES[name] for name in WATCHES),
    )
