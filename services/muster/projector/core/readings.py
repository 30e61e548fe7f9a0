"""What nodes measured, as dashboards are sent it: a row of readings per node, many rows in one message."""

from collections.abc import Iterator, Mapping

from pydantic_core import to_json

from muster.schemas.live import SLICE_BYTES_MAX, Reading
from muster.schemas.telemetry import NodeReading

ROW_OVERHEAD_BYTES = 8  # quotes, colon, comma


def readings_row(sample: NodeReading) -> bytes:
    """One node's readings by the places of its GPUs, encoded; null where there is none."""
    places: list[Reading | None] = [None] * (1 + max((device.index for device in sample.devices), default=-1))
    for device in sample.devices:
        measured = (device.utilisation_pct, device.temperature_c, device.memory_used_mib, device.power_w)
        places[device.index] = measured
    return to_json(places)


def telemetry_messages(cluster: str, rows: Mapping[str, bytes], *, at: int) -> Iterator[bytes]:
    """Bodies of `LiveTelemetry` for these rows, each within the bound. at: when the newest was measured."""
    head = b'{"cluster":%b,"at":%d,"nodes":{' % (to_json(cluster), at)
    part: list[bytes] = []
    size = 0
    for node, row in rows.items():
        entry = to_json(node) + b":" + row
        if part and size + len(entry) > SLICE_BYTES_MAX - len(head) - ROW_OVERHEAD_BYTES:
            yield head + b",".join(part) + b"}}"
            part, size = [], 0
        part.append(entry)
        size += len(entry) + 1
    if part:
        yield head + b",".join(part) + b"}}"
