"""A file that an administrator or a user opens with Muster: an archive of a log, a YAML file, names in answers."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from kit.servers import CLUSTER, NatsServer
from muster.bus import jsapi
from muster.bus.archive import export_log, import_log
from muster.bus.archive_file import READ_LIMITS, read_archive
from muster.bus.ports import ArchiveError, StreamConflictError
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.cli import main, output, tables
from muster.cli.errors import ExitCode
from muster.client import RefusedError
from muster.schemas.subjects import cluster_log
from muster.schemas.views import FactView, Problem

pytestmark = pytest.mark.connected

LOG = cluster_log(CLUSTER)
OWN = f"muster.{CLUSTER}.scheduler.job.J.placed"
Json = dict[str, object]


def settings(server: NatsServer) -> Settings:
    return Settings(state_dir=server.credentials_dir, credentials_dir=server.credentials_dir, cluster=CLUSTER)


@pytest.fixture
async def admin(nats_server_shared: NatsServer) -> AsyncIterator[Client]:
    """The connection with which `muster log import` works, to a broker whose log is empty."""
    bootstrapper = await nats_server_shared.connect("bootstrap")
    await bootstrap(bootstrapper, settings(nats_server_shared))
    await bootstrapper.close()
    client = await nats_server_shared.connect("admin-tools")
    yield client
    await client.close()


def message(seq: int = 1, **fields: object) -> Json:
    return {"seq": seq, "time": 1, "subject": OWN, "headers": {"ce-id": f"m{seq}"}, "body": "{}", **fields}


def archive(folder: Path, *messages: Json, stream: str = LOG.stream) -> Path:
    """Write an archive as somebody else would who wants it opened."""
    seqs = [int(str(one["seq"])) for one in messages]
    tail = {"messages": len(messages), "first_seq": min(seqs, default=0), "last_seq": max(seqs, default=0)}
    lines = [{"format": "muster-log", "version": 1, "stream": stream}, *messages, tail]
    path = folder / "offered.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return path


REPUBLISH = {"name": LOG.stream, "republish": {"src": ">", "dest": "stolen.>"}}
HOSTILE: dict[str, tuple[Json, str]] = {
    "a call of the JetStream API": (
        message(2, subject=f"$JS.API.STREAM.UPDATE.{LOG.stream}", body=json.dumps(REPUBLISH)),
        "subject",
    ),
    "a token": (message(2, subject="$KV.tokens.mine", body="{}"), "subject"),
    "a fact of another cluster": (message(2, subject="muster.borealis.scheduler.job.J.placed"), "subject"),
    "a wildcard": (message(2, subject=f"muster.{CLUSTER}.scheduler.job.*.placed"), "subject"),
    "a second command of the protocol": (
        message(2, subject=f"{OWN} 0\r\n\r\nPUB $KV.tokens.mine 2\r\n{{}}"),
        "subject",
    ),
    "a roll-up": (message(2, headers={"Nats-Rollup": "all"}), "Nats-Rollup"),
    "a roll-up in other letters": (message(2, headers={"nats-ROLLUP": "all"}), "nats-ROLLUP"),
    "a message that expires": (message(2, headers={"Nats-TTL": "1s"}), "Nats-TTL"),
    "a schedule": (message(2, headers={"Nats-Schedule": "@every 1s"}), "Nats-Schedule"),
    "a header in a header": (message(2, headers={"ce-id": "x\r\nNats-Rollup: all"}), "ce-id"),
    "a source that is no number": (message(2, headers={"Nats-Stream-Source": "FED x"}), "Nats-Stream-Source"),
    "a body that is no base64": (message(2, body=None, body_base64="!"), "body_base64"),
    "a sequence twice": (message(1), "seq"),
    "a hole": (message(3), "seq"),
    "no message at all": ({"seq": 2}, "time"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_an_archive_makes_no_call_and_sets_no_header_of_the_broker(
    admin: Client, tmp_path: Path, what: str
) -> None:
    offered, field = HOSTILE[what]
    file = archive(tmp_path, message(1), offered)

    with pytest.raises(ArchiveError, match=f"line 3: {field}") as refused:
        await import_log(admin, LOG, file)

    assert str(refused.value).isprintable()
    info = await jsapi.stream_info(admin, LOG.stream)
    assert info is not None
    assert "republish" not in info.config
    assert info.state.last_seq == 0, "nothing is stored of a file that was refused"


async def test_an_archive_starts_at_no_sequence_that_leaves_no_room(admin: Client, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="line 2: seq"):
        await import_log(admin, LOG, archive(tmp_path, message(2**63)))


async def test_a_line_of_an_archive_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    """389 KB of it would be 400 MB in memory; what is after the limit is never unpacked."""
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as packed:
        packed.write(b'{"format":"muster-log","version":1,"stream":"%s"}\n{"seq":1,"body":"' % LOG.stream.encode())
        for _ in range(64):
            packed.write(b"0" * 1024**2)
        packed.write(b'"}\n')

    with pytest.raises(ArchiveError, match=r"line 2: longer than .* bytes"):
        list(read_archive(path, LOG, READ_LIMITS))


async def test_an_archive_of_more_than_the_log_may_hold_is_refused(admin: Client, tmp_path: Path) -> None:
    file = archive(tmp_path, *(message(seq, body="0" * 1000) for seq in range(1, 1200)))
    info = await jsapi.stream_info(admin, LOG.stream)
    assert info is not None
    small = {**info.config, "max_bytes": 1024**2}
    await jsapi.call(admin, f"STREAM.UPDATE.{LOG.stream}", small)

    with pytest.raises(ArchiveError, match="max_bytes"):
        await import_log(admin, LOG, file)
    await jsapi.call(admin, f"STREAM.UPDATE.{LOG.stream}", info.config)


async def test_what_a_log_tells_of_itself_is_for_its_owner_alone(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "log.gz.part").write_bytes(b"")  # with the mode of whoever was there first
    (tmp_path / "log.gz.part").chmod(0o666)

    await export_log(admin, LOG, tmp_path / "log.gz")

    assert (tmp_path / "log.gz").stat().st_mode & 0o777 == 0o600


PLANTED: dict[str, tuple[str, Json]] = {
    "republish": (LOG.stream, {"republish": {"src": f"muster.{CLUSTER}.>", "dest": "stolen.>"}}),
    "subject_transform": ("DEAD", {"subject_transform": {"src": "dead.>", "dest": "stolen.>"}}),
    "allow_rollup_hdrs": (LOG.stream, {"allow_rollup_hdrs": True, "deny_purge": False}),
    "allow_direct": ("FED", {"allow_direct": True}),
    "sources": ("DEAD", {"sources": [{"name": LOG.stream}]}),
    "max_msgs": ("FED", {"max_msgs": 1}),
}


@pytest.mark.parametrize("option", PLANTED)
async def test_a_stack_does_not_start_on_a_stream_with_options_that_muster_did_not_set(
    admin: Client, nats_server_shared: NatsServer, option: str
) -> None:
    stream, planted = PLANTED[option]
    bootstrapper = await nats_server_shared.connect("bootstrap")
    info = await jsapi.stream_info(bootstrapper, stream)
    assert info is not None
    await jsapi.call(bootstrapper, f"STREAM.UPDATE.{stream}", {**info.config, **planted})

    with pytest.raises(StreamConflictError, match=f"stream {stream}: {option}"):
        await bootstrap(bootstrapper, settings(nats_server_shared))

    await jsapi.call(bootstrapper, f"STREAM.UPDATE.{stream}", info.config)
    await bootstrapper.close()


async def test_what_another_source_writes_into_a_log_ends_with_the_next_start(
    admin: Client, nats_server_shared: NatsServer
) -> None:
    """A source of its own name with other transforms, beside the one that is meant."""
    bootstrapper = await nats_server_shared.connect("bootstrap")
    info = await jsapi.stream_info(bootstrapper, LOG.stream)
    assert info is not None
    forged = {"name": "DEAD", "subject_transforms": [{"src": "dead.>", "dest": f"muster.{CLUSTER}.scheduler.>"}]}
    sources = info.config["sources"]
    assert isinstance(sources, list)
    await jsapi.call(bootstrapper, f"STREAM.UPDATE.{LOG.stream}", {**info.config, "sources": [*sources, forged]})

    with pytest.raises(StreamConflictError, match=f"stream {LOG.stream}: sources"):
        await bootstrap(bootstrapper, settings(nats_server_shared))

    await jsapi.call(bootstrapper, f"STREAM.UPDATE.{LOG.stream}", info.config)
    await asyncio.wait_for(bootstrapper.close(), 5)


def bomb(levels: int) -> str:
    """A list of two words, each level ten of the one before."""
    return "x0: &x0 [a, b]\n" + "".join(
        f"x{level}: &x{level} [{', '.join([f'*x{level - 1}'] * 10)}]\n" for level in range(1, levels)
    )


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", [bomb(7), bomb(40), "a: " + "[" * 500_000], ids=["millions", "10^40", "depth"])
@pytest.mark.parametrize("arguments", [["simulate", "scenario"], ["submit", "--dry-run"], ["health", "rules", "check"]])
def test_a_file_of_yaml_is_refused_before_it_is_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    """The first kept `simulate` busy for 18 s, the last ended the process."""
    (tmp_path / "offered.yaml").write_text(text)

    assert main.run([*arguments, str(tmp_path / "offered.yaml")]) == ExitCode.USAGE

    told = capsys.readouterr().err
    assert "offered.yaml" in told
    assert "aliases" in told or "deeper" in told


TERMINAL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x9d8;;http://evil.example\x9c[link=http://evil.example]x[/link]\r\nforged"


def test_names_and_reasons_of_others_write_no_control_character_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a job's name in a table, a reason in its details, a fact as it is watched, an answer's error, and as JSON."""
    fact = FactView(
        id="i", seq=1, time=1, stream=LOG.stream, cluster=CLUSTER, writer="agent", kind="job", subject_id=TERMINAL,
        name="failed", body=TERMINAL,
    )  # fmt: skip

    output.table(tables.JOBS, [("J", "queue", TERMINAL, *("-" for _ in tables.JOBS[3:]))])
    output.details([("reason", TERMINAL)])
    output.print_line(tables.fact_line(fact))
    output.print_error(RefusedError(Problem(title=TERMINAL, status=409, detail=TERMINAL)))
    output.emit_lines([fact])

    out, err = capsys.readouterr()
    assert not [char for char in out + err if not char.isprintable() and char != "\n"]
    assert not [line for line in out.splitlines() if line.startswith("forged")]
    assert FactView.model_validate_json(out.splitlines()[-1]) == fact
