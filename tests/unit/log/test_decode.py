"""What a delivered message says of itself."""

import pytest

from muster.bus import jsapi
from muster.bus.dead import BODY_BYTES_MAX, letter
from muster.bus.decode import Dead, Decoder, Position, Skipped, position
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas import envelope
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.registry import StreamRole, fact_type
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, LogName, cluster_log

BODY = b'{"principal": "me", "a-field-of-a-newer-writer": 1}'


def headers(*, stream: StreamRole, writer: str, name: str, scope: str) -> dict[str, str]:
    row = fact_type(stream, writer, "job", name)
    assert row is not None
    return envelope.headers(row, id="id", scope=scope, writer=writer, causes=("a", "b"), trace="t")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("$JS.ACK.LOG_a.c0ns.1.70.7.1700000000000000001.3", Position(70, 7, Instant(1700000000000000001), 3)),
        ("$JS.ACK.hub.ACC.LOG_a.c0ns.1.70.7.1700000000000000001.3.r", Position(70, 7, Instant(1700000000000000001), 3)),
        ("$JS.ACK._.ACC.LOG_a.c0ns.1.70.7.1700000000000000001.3", Position(70, 7, Instant(1700000000000000001), 3)),
        ("", None),
        ("_INBOX.x", None),
        ("$JS.ACK.short", None),
    ],
)
def test_a_reply_subject_says_where_a_message_stands(reply: str, expected: Position | None) -> None:
    assert position(reply) == expected


@pytest.mark.parametrize(
    ("log", "subject", "scope", "cluster"),
    [
        (cluster_log("atlas"), "muster.atlas.federation.job.node=2E1.cancel-forwarded", "fed", "atlas"),
        (FED_LOG, "muster.fed.federation.atlas.job.node=2E1.cancel-forwarded", "fed", "atlas"),
        (FED_LOG, "muster.fed.federation._.job.node=2E1.cancel-forwarded", "fed", ""),
    ],
)
def test_a_fact_reads_the_same_where_it_was_written_and_where_it_was_sourced(
    log: LogName, subject: str, scope: str, cluster: str
) -> None:
    fields = headers(stream=log.role, writer="federation", name="cancel-forwarded", scope=scope)

    found = Decoder(log).decode(subject, fields, BODY, seq=5, time=Instant(6))

    assert found == Fact(
        "id", 5, Instant(6), cluster, "federation", "job", "node.1", "cancel-forwarded", ("a", "b"), "t",
        JobCancelRequested(principal="me"),
    )  # fmt: skip


def test_a_report_must_come_from_the_cluster_in_its_subject() -> None:
    fields = headers(stream=StreamRole.FED_UP, writer="scheduler", name="succeeded", scope="atlas")
    decoder = Decoder(FED_UP_LOG)

    own = decoder.decode("fedup.atlas.scheduler.job.J.succeeded", fields, b"{}", seq=1, time=Instant(1))
    foreign = decoder.decode("fedup.borealis.scheduler.job.J.succeeded", fields, b"{}", seq=2, time=Instant(1))

    assert isinstance(own, Fact)
    assert isinstance(foreign, Dead)


@pytest.mark.parametrize("subject", ["muster.atlas.scheduler.job.J.new-name", "muster.atlas.new.shape", "other"])
def test_what_nobody_knows_is_skipped(subject: str) -> None:
    found = Decoder(cluster_log("atlas")).decode(subject, None, b"", seq=1, time=Instant(2))

    assert found == Skipped(1, Instant(2), subject)


def test_a_dead_letter_holds_what_is_wrong_and_a_bounded_body() -> None:
    dead = Dead(7, Instant(1), "muster.atlas.x", "body:\n  not json")

    message = letter("LOG_atlas", dead, {"ce-id": "i"}, b"x" * (BODY_BYTES_MAX + 1))

    assert message.subject == "dead.LOG_atlas.7"
    assert message.headers["Nats-Msg-Id"] == "LOG_atlas-7"
    assert message.headers["muster-dead-error"] == "body: not json"
    assert message.headers["muster-dead-headers"] == '{"ce-id": "i"}'
    assert len(message.body) == BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("2023-11-14T22:13:20.000000001Z", 1_700_000_000_000_000_001),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000_000),
    ],
)
def test_time_stamps_are_read_to_the_nanosecond(stamp: str, expected: int) -> None:
    assert jsapi.instant_of(stamp) == expected


def test_header_blocks_are_read_as_written() -> None:
    assert jsapi.header_fields(b"NATS/1.0\r\nce-id: a:b\r\nNats-Msg-Id:x\r\n\r\n") == {
        "ce-id": "a:b",
        "Nats-Msg-Id": "x",
    }
