"""Read recent device readings and output of a job from the streams that keep them."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import ValidationError

from muster.bus import jsapi
from muster.bus.clock import TimeSource
from muster.bus.names import API, output_stream, telemetry_stream
from muster.bus.ports import ApiError, LogUnavailableError
from muster.core.instant import NS_PER_S
from muster.gateway.ports import UnreachableError
from muster.schemas.live import JobReadings, OutputLine, OutputPage, Reading
from muster.schemas.subjects import output_subject, telemetry_subject
from muster.schemas.telemetry import NodeSample, OutputLines
from muster.schemas.views import JobView

COLUMNS_MAX = 180


def job_readings(job_id: str, messages: Iterable[bytes]) -> JobReadings:
    """Return the readings of the job's devices in columns of equal width; a column keeps the newest reading.

    A column is named by its start; empty columns and unreadable messages are left out.
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
    """Return the samples that name the job."""
    name = job_id.encode()
    for message in messages:
        if name in message:
            with suppress(ValidationError):
                yield NodeSample.model_validate_json(message)


def output_page(job_id: str, messages: Iterable[bytes], *, lines: int) -> OutputPage:
    """Return the newest lines, oldest first. Unreadable messages are left out."""
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
    """Return the first names, so many that their share of `found` messages is likely to be at most `most`."""
    return names[: max(1, len(names) * most // max(1, found))]


READ_S_MAX = 3.0
BYTES_MAX = 16 * 1024 * 1024
READS_MAX = 4  # reads at a time; further reads wait
INACTIVE_S = 10.0  # time after which the broker deletes an unused consumer

NODES_MAX = 64
SAMPLES_MAX = 8_192
OUTPUT_MESSAGES_MAX = 8_192
OUTPUT_WINDOWS_S = (120.0, 3_600.0)  # tried in turn until there are enough lines
SHORTER = 2  # factor below the window that would just fit: messages are not evenly spaced
TRIES_MAX = 4


@dataclass(frozen=True, slots=True)
class Recent:
    """Recent messages of a stream."""

    count: int
    """Number of messages in the stream; if it exceeds messages_max, none were read."""
    messages: tuple[bytes, ...] = ()
    """Bodies, oldest first."""


class RecentMessages:
    """Reads recent messages of the streams that tokens may read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Semaphore(READS_MAX)

    async def since(self, stream: str, subjects: Sequence[str], *, since_ns: int, messages_max: int) -> Recent:
        """Return all messages since `since_ns`, or only their number if there are too many. Raises UnreachableError."""
        async with self._turn:
            try:
                return await self._read(stream, subjects, since_ns, messages_max)
            except (LogUnavailableError, ApiError, nats.errors.Error, OSError) as error:
                raise UnreachableError(f"{stream} cannot be read: {error}") from error

    async def _read(self, stream: str, subjects: Sequence[str], since_ns: int, messages_max: int) -> Recent:
        name = self._client.new_inbox().rpartition(".")[2]  # as hard to guess as an inbox
        config = {
            "name": name,
            "deliver_policy": "by_start_time",
            "opt_start_time": datetime.fromtimestamp(since_ns / NS_PER_S, UTC).isoformat(),
            "ack_policy": "none",
            "filter_subjects": list(subjects),
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": round(INACTIVE_S * NS_PER_S),
        }
        request = {"stream_name": stream, "config": config}
        made = jsapi.ConsumerInfo.model_validate_json(
            await jsapi.call(self._client, f"CONSUMER.CREATE.{stream}.{name}", request)
        )
        try:
            if not 0 < made.num_pending <= messages_max:
                return Recent(made.num_pending)
            return Recent(made.num_pending, await self._pull(stream, made.name, made.num_pending))
        finally:
            with suppress(LogUnavailableError, ApiError):  # the broker deletes it soon anyway
                await jsapi.call(self._client, f"CONSUMER.DELETE.{stream}.{made.name}")

    async def _pull(self, stream: str, consumer: str, count: int) -> tuple[bytes, ...]:
        """Return the next `count` messages; fewer if the stream lost some, or their size exceeds the limit."""
        found: list[bytes] = []
        ended = asyncio.Event()

        async def take_in(message: Msg) -> None:
            if message.reply:
                found.append(message.data)
            if not message.reply or len(found) == count:  # without a reply it is the broker's end of the request
                ended.set()

        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, cb=take_in, pending_bytes_limit=2 * BYTES_MAX)
        try:
            wanted = {"batch": count, "max_bytes": BYTES_MAX, "expires": round(READ_S_MAX * NS_PER_S), "no_wait": True}
            next_of = f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
            await self._client.publish(next_of, json.dumps(wanted).encode(), reply=inbox)
            async with asyncio.timeout(READ_S_MAX):
                await ended.wait()
        except TimeoutError as error:
            raise LogUnavailableError(f"{len(found)} of {count} messages came within {READ_S_MAX:g} s") from error
        finally:
            await subscription.unsubscribe()
        return tuple(found)


@dataclass(frozen=True)
class Readings:
    """Reads device readings and output of jobs in these clusters."""

    recent: RecentMessages
    clusters: tuple[str, ...]
    time: TimeSource

    async def of_job(self, job: JobView, *, since_s: float) -> JobReadings:
        """Return the readings since then on the job's first NODES_MAX nodes; on fewer if there are too many.

        Raises UnreachableError.
        """
        since_ns = self.time.wall() - round(since_s * NS_PER_S)
        nodes = job.nodes[:NODES_MAX] if job.cluster in self.clusters else ()
        for _ in range(TRIES_MAX):
            if not nodes:
                break
            found = await self.recent.since(
                telemetry_stream(job.cluster),
                [telemetry_subject(job.cluster, node) for node in nodes],
                since_ns=since_ns,
                messages_max=SAMPLES_MAX,
            )
            if found.count <= SAMPLES_MAX:
                return await asyncio.to_thread(job_readings, job.id, found.messages)
            nodes = tuple(fewer(nodes, found=found.count, most=SAMPLES_MAX))
        return JobReadings(job_id=job.id)

    async def output(self, job: JobView, *, lines: int) -> OutputPage:
        """Return the newest kept lines that the job printed. Raises UnreachableError."""
        page = OutputPage(job_id=job.id)
        if job.cluster not in self.clusters:
            return page
        for window_s in OUTPUT_WINDOWS_S:
            page, is_cut = await self._printed(job, window_s, lines)
            if is_cut or len(page.lines) >= lines:
                break
        return page

    async def _printed(self, job: JobView, window_s: float, lines: int) -> tuple[OutputPage, bool]:
        """Return the lines of the last `window_s`; True if the window was shortened because of too many lines."""
        is_cut = False
        for _ in range(TRIES_MAX):
            found = await self.recent.since(
                output_stream(job.cluster),
                [output_subject(job.cluster, job.id)],
                since_ns=self.time.wall() - round(window_s * NS_PER_S),
                messages_max=OUTPUT_MESSAGES_MAX,
            )
            if found.count <= OUTPUT_MESSAGES_MAX:
                return await asyncio.to_thread(output_page, job.id, found.messages, lines=lines), is_cut
            is_cut = True
            window_s *= OUTPUT_MESSAGES_MAX / found.count / SHORTER
        return OutputPage(job_id=job.id), is_cut
