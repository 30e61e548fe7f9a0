"""Checkpoints: their format, and when one counts."""

import gzip

import pytest

from kit.checkpoints import MemoryCheckpoints
from kit.toys import JOINED, LOG
from muster.bus.checkpoint import (
    CheckpointError,
    Checkpoints,
    Pointer,
    Recorded,
    Voidance,
    contributors,
    decode_part,
    encode_part,
)
from muster.bus.limits import CHECKPOINTS_KEPT
from muster.core.fact import Draft
from muster.core.instant import Instant
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.registry import StreamRole

TIME = Instant(5)
GRANT = Draft("node", "a.b", "state-recorded", GrantState(released=True), causes=("x", "y"), trace="t")
NODE = Draft("node", "a.b", "state-recorded", NodeState(description=JOINED))

SILENT = tuple(service for service in contributors(StreamRole.LOG) if service not in ("agent", "scheduler"))


def part(service: str, seq: int) -> bytes:
    return encode_part(LOG, service, seq=seq, time=TIME, drafts=[GRANT if service == "scheduler" else NODE])


async def upload(checkpoints: Checkpoints, service: str, seq: int) -> None:
    """A part; before the agent's those of the services that have nothing to say."""
    for silent in SILENT if service == "agent" else ():
        body = encode_part(LOG, silent, seq=seq, time=TIME, drafts=[])
        await checkpoints.upload(silent, seq=seq, time=TIME, body=body)
    await checkpoints.upload(service, seq=seq, time=TIME, body=part(service, seq))


@pytest.fixture
def store() -> MemoryCheckpoints:
    return MemoryCheckpoints()


@pytest.fixture
def checkpoints(store: MemoryCheckpoints) -> Checkpoints:
    return Checkpoints(store, LOG)


def test_a_part_gives_back_its_facts_at_the_checkpoints_sequence_and_time() -> None:
    (fact,) = decode_part(LOG, "scheduler", seq=9, time=TIME, body=part("scheduler", 9))
    assert (fact.seq, fact.time, fact.writer, fact.kind, fact.subject_id) == (9, TIME, "scheduler", "node", "a.b")
    assert (fact.name, fact.cluster, fact.causes, fact.trace) == ("state-recorded", "atlas", ("x", "y"), "t")
    assert fact.payload == GRANT.payload


def test_the_same_state_gives_the_same_bytes() -> None:
    assert part("agent", 9) == part("agent", 9)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "cannot be read|not a part"),
        (b"no gzip", "not a part"),
        (part("scheduler", 8), "says that it is"),
        (part("scheduler", 9)[:-12], "not a part"),
        (gzip.compress(gzip.decompress(part("scheduler", 9)).replace(b'"version":1', b'"version":2')), "version 2"),
        (gzip.compress(gzip.decompress(part("scheduler", 9)).replace(b'"node"', b'"comet"')), "comet"),
        (gzip.compress(gzip.decompress(part("scheduler", 9)).replace(b'"released":true', b'"relea":1')), "released"),
    ],
)
def test_a_damaged_or_foreign_part_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        decode_part(LOG, "scheduler", seq=9, time=TIME, body=body)


def test_who_must_contribute_derives_from_the_table_of_state_facts() -> None:
    assert contributors(StreamRole.LOG) == (
        "agent",
        "composer",
        "guard",
        "health",
        "scaler",
        "scheduler",
        "telemetry",
        "upgrader",
    )
    assert contributors(StreamRole.FED) == ("federation",)


async def test_a_checkpoint_counts_only_when_all_parts_are_there(checkpoints: Checkpoints) -> None:
    await upload(checkpoints, "scheduler", 7)
    assert await checkpoints.newest() is None
    await upload(checkpoints, "agent", 7)
    recorded, facts = await checkpoints.recover("projector", ())
    assert recorded is not None
    assert recorded.seq == 7
    assert {fact.writer for fact in facts} == {"agent", "scheduler"}


async def test_a_checkpoint_of_before_a_service_existed_stays_usable(
    checkpoints: Checkpoints, store: MemoryCheckpoints
) -> None:
    """After an upgrade the newest one lacks the part of the service that is new: that one had nothing to say then."""
    await upload(checkpoints, "scheduler", 7)
    await upload(checkpoints, "agent", 7)
    before = Recorded(seq=7, time_ns=TIME, services=tuple(name for name in contributors(LOG.role) if name != "guard"))
    await store.drop_part(LOG.stream, 7, "guard")
    assert await store.move_pointer(LOG.stream, Pointer(checkpoints=(before,)), revision=1)
    recorded, facts = await checkpoints.recover("guard", ())
    assert recorded == before
    assert {fact.writer for fact in facts} == {"agent", "scheduler"}


async def test_whoever_moves_the_pointer_meanwhile_loses_nothing(store: MemoryCheckpoints) -> None:
    first, second = Checkpoints(store, LOG), Checkpoints(store, LOG)
    await upload(first, "scheduler", 7)
    await upload(first, "scheduler", 8)
    read = store.pointer
    raced = False

    async def race(stream: str) -> tuple[Pointer, int]:
        nonlocal raced
        seen = await read(stream)
        if not raced and (stream, 8, "agent") in store.parts:
            raced = True
            store.pointer = read  # type: ignore[method-assign]
            await upload(first, "agent", 7)
        return seen

    store.pointer = race  # type: ignore[method-assign]
    await upload(second, "agent", 8)
    assert raced
    pointer, _ = await read(LOG.stream)
    assert [recorded.seq for recorded in pointer.checkpoints] == [8, 7]


async def test_older_and_overtaken_parts_are_deleted(checkpoints: Checkpoints, store: MemoryCheckpoints) -> None:
    await upload(checkpoints, "scheduler", 1)  # its other part never comes
    for seq in range(2, 6):
        await upload(checkpoints, "scheduler", seq)
        await upload(checkpoints, "agent", seq)
    await upload(checkpoints, "scheduler", 6)
    assert {seq for _, seq, _ in store.parts} == {5, 4, 6}
    assert CHECKPOINTS_KEPT == 2


async def test_parts_stranded_by_who_was_killed_are_deleted_by_the_next(store: MemoryCheckpoints) -> None:
    await upload(Checkpoints(store, LOG), "scheduler", 1)  # killed before the agent uploaded its part
    again = Checkpoints(store, LOG)
    for seq in (2, 3):
        await upload(again, "agent", seq)
        await upload(again, "scheduler", seq)
    assert {seq for _, seq, _ in store.parts} == {2, 3}


async def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(
    checkpoints: Checkpoints, store: MemoryCheckpoints
) -> None:
    for seq in (3, 4):
        for service in ("agent", "scheduler"):
            await upload(checkpoints, service, seq)
    store.parts[LOG.stream, 4, "agent"] = b"damaged"
    recorded, _ = await checkpoints.recover("agent", ())
    assert recorded is not None
    assert recorded.seq == 3


@pytest.mark.parametrize(
    ("voided", "used"),
    [
        (Voidance(seq=4, service="agent", said_at=6), 3),  # the newer one holds what shall be skipped
        (Voidance(seq=3, service="agent", said_at=6), None),
        (Voidance(seq=4, service="scheduler", said_at=6), 5),  # somebody else's
        (Voidance(seq=2, service="agent", said_at=3), 5),  # both were made after it was said
    ],
)
async def test_checkpoints_that_hold_a_voided_message_are_discarded_for_its_service(
    checkpoints: Checkpoints, voided: Voidance, used: int | None
) -> None:
    for seq in (3, 5):
        for service in ("agent", "scheduler"):
            await upload(checkpoints, service, seq)
    recorded, _ = await checkpoints.recover("agent", [voided])
    assert (None if recorded is None else recorded.seq) == used
