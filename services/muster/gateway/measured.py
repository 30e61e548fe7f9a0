"""A job's readings and its output, put together from what nodes and pods sent. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from pydantic import ValidationError

from muster.core.instant import NS_PER_S
from muster.schemas.live import JobReadings, OutputLine, OutputPage, Reading
from muster.schemas.telemetry import NodeSample, OutputLines

COLUMNS_MAX = 180


def job_readings(job_id: str, messages: Iterable[bytes]) -> JobReadings:
    """The readings of the devices that the job held, in columns of equal width; of several in one, the newest.

    A column is named by its beginning; those in which nothing was measured are left out. What cannot be read is, too.
    """
    samples = sorted(_samples(job_id, messages), key=lambda sample: sample.at)
    if not samples:
        return JobReadings(job_id=job_id)
    first = samples[0].at
    width_ns = max(NS_PER_S, -(-(samples[-1].at + 1 - first) // COLUMNS_MAX))
    columns: dict[int, dict[str, Reading]] = {}
    for sample in samples:
        column = columns.setdefault((sample.at - first) // width_ns, {})
        for device in sample.devices:
            if job_id in device.job_ids:
                measured = (device.utilisation_pct, device.temperature_c, device.memory_used_mib, device.power_w)
                column[f"{sample.node}/{device.index}"] = measured
    told = [(first + place * width_ns, column) for place, column in columns.items() if column]
    devices = sorted({name for _, column in told for name in column})
    return JobReadings(
        job_id=job_id,
        at=tuple(at for at, _ in told),
        devices={name: tuple(column.get(name) for _, column in told) for name in devices},
    )


def _samples(job_id: str, messages: Iterable[bytes]) -> Iterator[NodeSample]:
    """Those that name the job."""
    name = job_id.encode()
    for message in messages:
        if name in message:
            with suppress(ValidationError):
                yield NodeSample.model_validate_json(message)


def output_page(job_id: str, messages: Iterable[bytes], *, lines: int) -> OutputPage:
    """The newest lines, oldest first. What cannot be read is left out."""
    newest: deque[OutputLine] = deque(maxlen=lines)
    for message in messages:
        try:
            printed = OutputLines.model_validate_json(message)
        except ValidationError:
            continue
        newest.extend(
            OutputLine(at=printed.at, group=printed.group, replica=printed.replica, attempt=printed.attempt, text=text)
            for text in printed.lines
        )
    return OutputPage(job_id=job_id, lines=tuple(newest))


def fewer(names: Sequence[str], *, found: int, most: int) -> Sequence[str]:
    """The first of these, so many that what they have is likely to be at most `most`, if all have `found`."""
    return names[: max(1, len(names) * most // max(1, found))]
