"""Export, import, trim and repair event logs, over a direct connection to the bus."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nats.aio.client import Client
from pydantic import JsonValue

from muster.bus import appender
from muster.bus.access import ADMIN_TOOLS, OPERATOR
from muster.bus.archive import Progress, export_log, import_log
from muster.bus.archive import trim as trim_log
from muster.bus.archive_file import Archived
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.clock import SystemTime
from muster.bus.dead import HEADER_ERROR, HEADER_SEQ, HEADER_STREAM, HEADER_SUBJECT
from muster.bus.decode import StoredMessage
from muster.bus.jsapi import StreamInfo, message_at, stream_info
from muster.bus.requests import Outcome, Single
from muster.bus.settings import Settings
from muster.cli import moments, output
from muster.cli.bus_session import log_of, on_bus, settings_of
from muster.cli.errors import refused, unreachable, usage
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import measured
from muster.schemas import envelope
from muster.schemas.facts.control import Voided
from muster.schemas.ids import request_fact_id
from muster.schemas.registry import SERVICES, fact_type
from muster.schemas.subjects import DEAD_STREAM, FED_LOG, LogName, cluster_log, fact_subject
from muster.stack import up
from muster.stack.options import StartOptions
from muster.stack.state_dir import StateDir, StateDirError, holder_of

PUBLISH_S_MAX = 5.0

DEAD_LETTERS = ("BURIED", "STREAM", "SEQ", "BYTES", "SUBJECT", "ERROR")
RIGHT = frozenset({"SEQ", "BYTES"})


def export(state_dir: Path, file: Path, name: str) -> None:
    """Export a log of the running stack to a new file. Raises CliError."""
    if file.exists():
        raise usage(f"FILE: {file} exists; give a new file")
    settings = settings_of(state_dir)
    log = log_of(settings, name)
    done = asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: _export(client, log, file)))
    print_line(f"{file}: {done.messages} messages of {log.stream}, {done.first_seq} to {done.last_seq}")


def restore(state_dir: Path, file: Path, name: str) -> None:
    """Import a file into an empty log, with no service running. Raises CliError."""
    if not file.is_file():
        raise usage(f"FILE: {file} is not a regular file; give a file written by `muster log export`")
    state = StateDir(state_dir)
    try:
        if state.run.exists() and holder_of(state) is not None:
            raise refused(f"--state-dir: a stack is running in {state_dir}; stop it with `muster down` first")
        stored, log = asyncio.run(_restore(state_dir, file, name))
    except StateDirError as error:
        raise refused(str(error)) from error
    print_line(f"{log.stream}: {stored} messages of {file}; `muster up --state-dir {state_dir}` continues from there")


def trim(state_dir: Path, name: str, *, archive: Path, yes: bool) -> None:
    """Archive and delete the facts before the older kept checkpoint. Raises CliError."""
    if archive.exists():
        raise usage(f"--archive: {archive} exists; give a new file")
    settings = settings_of(state_dir)
    log = log_of(settings, name)
    if settings.role == "centre" and log != FED_LOG:
        raise refused(
            f"{log.stream} is a copy here, which the center trims by itself (federation.copies_keep_s); the log is "
            f"trimmed where it is written: --state-dir of the cell {log.cluster}, or --log fed for the federation's"
        )
    up_to = asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: _trimmable(client, log)))
    if not yes:
        output.confirm(f"Move the facts of {log.stream} up to {up_to} to {archive} and delete them?")
    done = asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: _trim(client, settings, log, up_to, archive)))
    print_line(f"{log.stream}: {done.messages} messages up to {done.last_seq} moved to {archive}")


def skip(state_dir: Path, name: str, *, seq: int, service: str, reason: str, yes: bool) -> None:
    """Void one fact for one service. Raises CliError."""
    if service not in SERVICES:
        raise usage(f"--service: {service!r} is not a service; use one of {', '.join(SERVICES)}")
    settings = settings_of(state_dir)
    log = log_of(settings, name)
    info = asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: stream_info(client, log.stream)))
    refuse_absent(log, seq, info)
    if not yes:
        output.confirm(f"Let {service} ignore fact {seq} of {log.stream} permanently?")
    at = asyncio.run(on_bus(settings, OPERATOR, lambda client: _void(client, log, seq, service, reason)))
    print_line(f"{log.stream}: fact {seq} is void for {service}, recorded at {at}; the service recovers without it")


def refuse_absent(log: LogName, seq: int, info: StreamInfo | None) -> None:
    """Raise CliError for a sequence that is not in the log: a future or a trimmed one."""
    if info is None or not info.state.first_seq <= seq <= info.state.last_seq:
        there = f"{info.state.first_seq} to {info.state.last_seq}" if info else "no fact"
        raise usage(f"SEQ: {seq} is not in {log.stream}, which has {there}")


def repair_fence(state_dir: Path, name: str, *, service: str, yes: bool) -> None:
    """Append a valid fence after an unreadable one. Raises CliError."""
    if service not in SERVICES:
        raise usage(f"--service: {service!r} is not a service; use one of {', '.join(SERVICES)}")
    settings = settings_of(state_dir)
    log = log_of(settings, name)
    if not yes:
        output.confirm(f"Replace the fence of {service} on {log.stream}, if it cannot be read?")
    repaired = asyncio.run(_repair_fence(settings, log, service))
    if repaired is None:
        raise refused(f"{log.stream}: the fence of {service} is valid; there is nothing to repair")
    match repaired.outcome:
        case Outcome.STORED:
            print_line(f"{log.stream}: {service} has a valid fence at {repaired.seq}; it can elect a leader again")
        case Outcome.EXISTS:
            raise refused(f"{log.stream}: the fence changed concurrently ({repaired.detail}); repeat the command")
        case Outcome.FULL:
            raise refused(f"{log.stream} is full ({repaired.detail}); trim it, then repair the fence")
        case Outcome.UNAVAILABLE:
            raise unreachable(f"{log.stream} did not answer: {repaired.detail}")


async def _repair_fence(settings: Settings, log: LogName, service: str) -> Single | None:
    """Read the fence as a user that may read, and write as a user that may only write fences and `voided`."""

    async def read(reading: Client) -> Single | None:
        return await on_bus(settings, OPERATOR, lambda writing: appender.repair_fence(reading, writing, log, service))

    return await on_bus(settings, ADMIN_TOOLS, read)


async def _export(client: Client, log: LogName, file: Path) -> Archived:
    with _progress(f"exporting {log.stream}") as progress:
        return await export_log(client, log, file, progress=progress)


async def _restore(state_dir: Path, file: Path, name: str) -> tuple[int, LogName]:
    """Run NATS and Redis without services during the block."""
    stack = await up.start(StartOptions(state_dir=state_dir, services=(), split=True))
    try:
        log = log_of(stack.settings, name)
        with _progress(f"importing {log.stream}") as progress:
            stored = await on_bus(
                stack.settings, ADMIN_TOOLS, lambda client: _import(client, stack.settings, log, file, progress)
            )
        return stored, log
    finally:
        await stack.stop()


async def _import(client: Client, settings: Settings, log: LogName, file: Path, progress: Progress) -> int:
    """Refuse FED before a cluster's log: the facts of FED would flow into the empty log as new ones."""
    cluster = cluster_log(settings.cluster)
    if log == FED_LOG:
        info = await stream_info(client, cluster.stream)
        if info is not None and not info.state.last_seq:
            raise refused(f"{cluster.stream} is empty and would run the jobs of FED again; import its archive first")
    return await import_log(client, log, file, progress=progress)


async def _trimmable(client: Client, log: LogName) -> int:
    """Return the last sequence that the older kept checkpoint makes removable."""
    pointer, _ = await NatsCheckpoints(client).pointer(log.stream)
    kept = sorted(one.seq for one in pointer.checkpoints)
    if not kept:
        raise refused(
            f"{log.stream} has no checkpoint yet, so all facts are needed; a checkpoint is written every 100,000 facts"
        )
    return kept[0]


async def _trim(client: Client, settings: Settings, log: LogName, up_to: int, archive: Path) -> Archived:
    with _progress(f"archiving {log.stream}") as progress:
        return await trim_log(
            client, log, up_to_seq=up_to, keep_s=settings.bus.trim_keep_s, now=SystemTime().wall(), archive=archive,
            progress=progress,
        )  # fmt: skip


async def _void(client: Client, log: LogName, seq: int, service: str, reason: str) -> int:
    row = fact_type(log.role, OPERATOR, "log", "voided")
    assert row is not None, "the table of facts has no row for voided"
    ident = request_fact_id("voided", log.stream, str(seq), service)
    headers = envelope.headers(row, id=ident, scope=log.scope, writer=OPERATOR, causes=(), trace="")
    subject = fact_subject(log, writer=OPERATOR, kind="log", subject_id=str(seq), name="voided")
    body = Voided(seq=seq, service=service, reason=reason).model_dump_json().encode()
    acknowledged = await client.jetstream().publish(subject, body, headers=headers, timeout=PUBLISH_S_MAX)
    return acknowledged.seq


@contextmanager
def _progress(what: str) -> Iterator[Progress]:
    """Show a progress bar for work whose size is known only after its start."""
    with measured(what, total=100.0) as reached:
        yield lambda done, total: reached(100 * done / total if total else 100, f"{done} of {total} messages")


def show_dead_letters(state_dir: Path, form: Output, *, limit: int) -> None:
    """Print the newest dead letters, oldest first. Raises CliError."""
    settings = settings_of(state_dir)
    found = asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: newest_dead_letters(client, limit=limit)))
    if form is Output.JSON:
        output.emit_json([as_json(message) for message in found])
        return
    output.table(DEAD_LETTERS, dead_letter_rows(found, now_ns=SystemTime().wall()), right=RIGHT)


async def newest_dead_letters(client: Client, *, limit: int) -> Sequence[StoredMessage]:
    """Return at most `limit` entries, oldest first."""
    info = await stream_info(client, DEAD_STREAM)
    if info is None or not info.state.messages:
        return []
    first = max(info.state.first_seq, info.state.last_seq - limit + 1)
    found = [await message_at(client, DEAD_STREAM, seq) for seq in range(first, info.state.last_seq + 1)]
    return [message for message in found if message is not None]


def dead_letter_rows(found: Iterable[StoredMessage], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """Return a row per dead letter."""
    for message in found:
        told = message.headers
        yield (
            moments.when(message.time, now_ns=now_ns),
            told.get(HEADER_STREAM, ""),
            told.get(HEADER_SEQ, ""),
            str(len(message.body)),
            told.get(HEADER_SUBJECT, ""),
            told.get(HEADER_ERROR, ""),
        )


def as_json(message: StoredMessage) -> dict[str, JsonValue]:
    """Return a dead letter as JSON: the error, the position of the message, and its body as text."""
    told = message.headers
    return {
        "time": message.time,
        "stream": told.get(HEADER_STREAM, ""),
        "seq": int(told.get(HEADER_SEQ, "0")),
        "subject": told.get(HEADER_SUBJECT, ""),
        "error": told.get(HEADER_ERROR, ""),
        "body": message.body.decode(errors="replace"),
    }
