"""Read recent device readings and output of a job from the streams that keep them."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
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


@dataclass(frozen=True, slots=True)
class OutputFilter:
    """The wanted output of a job; None: of every group, replica or attempt."""

    group: int | None = None
    replica: int | None = None
    attempt: int | None = None

    def lines(self, message: bytes) -> list[OutputLine]:
        """Return the wanted lines of a message; none of an unreadable one."""
        try:
            printed = OutputLines.model_validate_json(message)
        except ValidationError:
            return []
        at, group, replica, attempt = printed.at, printed.group, printed.replica, printed.attempt
        pairs = ((self.group, group), (self.replica, replica), (self.attempt, attempt))
        if any(wanted not in (None, found) for wanted, found in pairs):
            return []
        return [OutputLine(at=at, group=group, replica=replica, attempt=attempt, text=text) for text in printed.lines]


ALL_OUTPUT = OutputFilter()


def output_page(
    job_id: str, messages: Iterable[bytes], *, lines: int, wanted: OutputFilter = ALL_OUTPUT, end: str = ""
) -> OutputPage:
    """Return the newest lines, oldest first. end: the cursor after the messages."""
    newest: deque[OutputLine] = deque(maxlen=lines)
    for message in messages:
        newest.extend(wanted.lines(message))
    return OutputPage(job_id=job_id, lines=tuple(newest), end=end)


def next_output(found: "Recent", *, after: int, lines: int, wanted: OutputFilter) -> tuple[tuple[OutputLine, ...], int]:
    """Return the oldest lines, and the sequence of the last message that they contain completely.

    At most `lines`, or those of the first message. after: the sequence before the messages.
    """
    told: list[OutputLine] = []
    for seq, message in zip(found.seqs, found.messages, strict=True):
        more = wanted.lines(message)
        if told and len(told) + len(more) > lines:
            break
        told += more
        after = seq
    return tuple(told), after


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
NEXT_MESSAGES_MAX = 256
NEXT_BYTES_MAX = 4 * 1024 * 1024
"""Limit of the messages that a client gets after its cursor in one answer."""
WAITS_MAX = 256
"""Clients that wait for new output at a time; further clients get an empty page at once, and ask again."""
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
    seqs: tuple[int, ...] = ()
    """Their sequences in the stream."""


class RecentMessages:
    """Reads recent messages of the streams that tokens may read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Semaphore(READS_MAX)
        self._waits = asyncio.Semaphore(WAITS_MAX)

    async def since(self, stream: str, subjects: Sequence[str], *, since_ns: int, messages_max: int) -> Recent:
        """Return all messages since `since_ns`, or only their number if there are too many. Raises UnreachableError."""
        start: dict[str, str | int] = {
            "deliver_policy": "by_start_time",
            "opt_start_time": datetime.fromtimestamp(since_ns / NS_PER_S, UTC).isoformat(),
        }
        async with self._turn, self._consumer(stream, subjects, start) as made:
            if not 0 < made.num_pending <= messages_max:
                return Recent(made.num_pending)
            return await self._pull(stream, made, count=made.num_pending, bytes_max=BYTES_MAX)

    async def after(self, stream: str, subjects: Sequence[str], *, seq: int, wait_s: float) -> Recent:
        """Return the next messages after `seq`, at most NEXT_MESSAGES_MAX. Raises UnreachableError.

        wait_s: longest wait for the first message, in seconds.
        """
        start: dict[str, str | int] = {"deliver_policy": "by_start_sequence", "opt_start_seq": seq + 1}
        wait_s = 0.0 if self._waits.locked() else wait_s
        async with self._waits, self._consumer(stream, subjects, start) as made:
            if made.num_pending:
                count = min(made.num_pending, NEXT_MESSAGES_MAX)
                return await self._pull(stream, made, count=count, bytes_max=NEXT_BYTES_MAX)
            if not wait_s:
                return Recent(0)
            return await self._pull(stream, made, count=1, bytes_max=NEXT_BYTES_MAX, wait_s=wait_s)

    @asynccontextmanager
    async def _consumer(
        self, stream: str, subjects: Sequence[str], start: Mapping[str, str | int]
    ) -> AsyncIterator[jsapi.ConsumerInfo]:
        """Create a consumer, and delete it afterwards. Raises UnreachableError, also for errors while it is used."""
        name = self._client.new_inbox().rpartition(".")[2]  # as hard to guess as an inbox
        config = {
            "name": name,
            **start,
            "ack_policy": "none",
            "filter_subjects": list(subjects),
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": round(INACTIVE_S * NS_PER_S),
        }
        request = {"stream_name": stream, "config": config}
        try:
            made = jsapi.ConsumerInfo.model_validate_json(
                await jsapi.call(self._client, f"CONSUMER.CREATE.{stream}.{name}", request)
            )
            try:
                yield made
            finally:
                with suppress(LogUnavailableError, ApiError):  # the broker deletes it soon anyway
                    await jsapi.call(self._client, f"CONSUMER.DELETE.{stream}.{made.name}")
        except (LogUnavailableError, ApiError, nats.errors.Error, OSError) as error:
            raise UnreachableError(f"{stream} cannot be read: {error}") from error

    async def _pull(
        self, stream: str, consumer: jsapi.ConsumerInfo, *, count: int, bytes_max: int, wait_s: float = 0.0
    ) -> Recent:
        """Return the next `count` messages; fewer if the stream lost some, or their size exceeds the limit.

        wait_s: wait for messages that are not stored yet, in seconds; 0: return only stored ones.
        """
        found: list[Msg] = []
        ended = asyncio.Event()

        async def take_in(message: Msg) -> None:
            if message.reply:
                found.append(message)
            if not message.reply or len(found) == count:  # without a reply it is the broker's end of the request
                ended.set()

        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, cb=take_in, pending_bytes_limit=2 * BYTES_MAX)
        try:
            expires = round((wait_s or READ_S_MAX) * NS_PER_S)
            wanted = {"batch": count, "max_bytes": bytes_max, "expires": expires, "no_wait": not wait_s}
            next_of = f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer.name}"
            await self._client.publish(next_of, json.dumps(wanted).encode(), reply=inbox)
            async with asyncio.timeout(wait_s + READ_S_MAX):
                await ended.wait()
        except TimeoutError as error:
            told = f"{len(found)} of {count} messages came within {wait_s + READ_S_MAX:g} s"
            raise LogUnavailableError(told) from error
        finally:
            await subscription.unsubscribe()
        seqs = tuple(message.metadata.sequence.stream for message in found)
        return Recent(len(found), tuple(message.data for message in found), seqs)


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

    async def next_output(
        self, job: JobView, *, after: int, lines: int, wait_s: float, wanted: OutputFilter = ALL_OUTPUT
    ) -> OutputPage:
        """Return the lines that the job printed after this sequence of its cluster's stream. Raises UnreachableError.

        wait_s: longest wait for a line, in seconds; the page is empty then.
        """
        if job.cluster not in self.clusters:
            return OutputPage(job_id=job.id)
        stream = output_stream(job.cluster)
        found = await self.recent.after(stream, [output_subject(job.cluster, job.id)], seq=after, wait_s=wait_s)
        told, seq = await asyncio.to_thread(next_output, found, after=after, lines=lines, wanted=wanted)
        return OutputPage(job_id=job.id, lines=told, end=f"{stream}:{seq}")

    async def output(self, job: JobView, *, lines: int, wanted: OutputFilter = ALL_OUTPUT) -> OutputPage:
        """Return the newest kept lines that the job printed. Raises UnreachableError."""
        page = OutputPage(job_id=job.id)
        if job.cluster not in self.clusters:
            return page
        for window_s in OUTPUT_WINDOWS_S:
            page, is_cut = await self._printed(job, window_s, lines, wanted)
            if is_cut or len(page.lines) >= lines:
                break
        return page

    async def _printed(
        self, job: JobView, window_s: float, lines: int, wanted: OutputFilter
    ) -> tuple[OutputPage, bool]:
        """Return the lines of the last `window_s`; True if the window was shortened because of too many lines."""
        is_cut, stream = False, output_stream(job.cluster)
        for _ in range(TRIES_MAX):
            found = await self.recent.since(
                stream,
                [output_subject(job.cluster, job.id)],
                since_ns=self.time.wall() - round(window_s * NS_PER_S),
                messages_max=OUTPUT_MESSAGES_MAX,
            )
            if found.count <= OUTPUT_MESSAGES_MAX:
                end = f"{stream}:{found.seqs[-1] if found.seqs else 0}"
                page = await asyncio.to_thread(output_page, job.id, found.messages, lines=lines, wanted=wanted, end=end)
                return page, is_cut
            is_cut = True
            window_s *= OUTPUT_MESSAGES_MAX / found.count / SHORTER
        return OutputPage(job_id=job.id), is_cut
