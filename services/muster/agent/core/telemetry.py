"""What a simulated GPU would report: functions of seed, device and interval, in the ranges of a data-centre GPU."""

import hashlib

from muster.agent.core.picked import devices_of
from muster.agent.core.state import NodeRecord
from muster.core import Instant
from muster.schemas.facts.node import NodeJoined
from muster.schemas.telemetry import DeviceSample, NodeSample

MEMORY_MIB = {"P100": 16_280, "V100M16": 16_160, "V100M32": 32_510, "T4": 15_360, "A10": 23_028, "H100": 81_559}
MEMORY_MIB_DEFAULT = 40_960  # models whose memory is not published (G2, G3)
IDLE_POWER_W, FULL_POWER_W = 70.0, 650.0
IDLE_TEMPERATURE_C, FULL_TEMPERATURE_C = 30.0, 74.0
WHOLE_GPU_MILLI = 1000


def sample_node(name: str, node: NodeRecord, *, seed: int, interval: int, at: Instant) -> NodeSample | None:
    """All GPUs of a node in one interval; None if it has none or does not answer. interval: its number."""
    description = node.description
    if description is None or node.lost or not description.gpu_uuids:
        return None
    held = _holders(node, description)
    memory_mib = MEMORY_MIB.get(description.gpu_model, MEMORY_MIB_DEFAULT)
    devices = tuple(
        _idle(description, index, memory_mib)
        if index not in held
        else _busy(description, index, memory_mib, held[index], seed=seed, interval=interval)
        for index in range(len(description.gpu_uuids))
        if index not in description.absent
    )
    return NodeSample(node=name, at=at, gpu_model=description.gpu_model, devices=devices)


def _holders(node: NodeRecord, description: NodeJoined) -> dict[int, list[tuple[str, int]]]:
    """By device: jobs there and the milli-GPUs that each holds of it."""
    held: dict[int, list[tuple[str, int]]] = {}
    for job_id, slots in node.slots.items():
        for slot in slots:
            for device in devices_of(slot, description):
                held.setdefault(device, []).append((job_id, slot.gpu_milli))
    return held


def _idle(description: NodeJoined, index: int, memory_mib: int) -> DeviceSample:
    return DeviceSample(
        index=index,
        uuid=description.gpu_uuids[index],
        utilisation_pct=0.0,
        memory_used_mib=0,
        memory_total_mib=memory_mib,
        power_w=IDLE_POWER_W,
        temperature_c=IDLE_TEMPERATURE_C,
    )


def _busy(
    description: NodeJoined, index: int, memory_mib: int, held: list[tuple[str, int]], *, seed: int, interval: int
) -> DeviceSample:
    uuid = description.gpu_uuids[index]
    share = min(1.0, sum(milli for _, milli in held) / WHOLE_GPU_MILLI)
    draw = hashlib.sha256(f"{seed}\x1f{uuid}\x1f{interval}".encode()).digest()
    load = share * (0.80 + 0.19 * draw[0] / 255)  # training keeps a device busy, with a little rest for input
    return DeviceSample(
        index=index,
        uuid=uuid,
        utilisation_pct=round(100 * load, 1),
        memory_used_mib=int(memory_mib * share * (0.70 + 0.25 * draw[1] / 255)),
        memory_total_mib=memory_mib,
        power_w=round(IDLE_POWER_W + load * (FULL_POWER_W - IDLE_POWER_W), 1),
        temperature_c=round(IDLE_TEMPERATURE_C + load * (FULL_TEMPERATURE_C - IDLE_TEMPERATURE_C) + draw[2] / 64, 1),
        job_ids=tuple(job_id for job_id, _ in held),
    )
