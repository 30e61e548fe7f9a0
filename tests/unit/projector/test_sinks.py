"""Sinks beside one another, and what the live view does while the broker takes nothing."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from nats.aio.client import Client
from prometheus_client import REGISTRY

from kit.clocks import FakeTime
from kit.projector import Story, a_job
from kit.waiting import until
from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.projector.app import Sinks
from muster.projector.core import ProjectorCore
from muster.projector.sink import BYTES_MAX, JOB_BYTES_MAX, WINDOW_S, Allowance
from muster.projector.view import HELD_S_MAX, PENDING_BYTES_MAX, SLICE_S, ViewSink
from muster.schemas.live import LiveSlice

CLUSTER = "atlas"
STREAM = "LOG_atlas"


@dataclass
class FakeBroker:
    """A connection that keeps what is published; packed: deflated. fails: what the next publication raises."""

    is_connected: bool = True
    pending_data_size: int = 0
    fails: Exception | None = None
    sent: list[tuple[str, LiveSlice]] = field(default_factory=list)
    packed: list[tuple[str, LiveSlice]] = field(default_factory=list)

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        if self.fails is not None:
            raise self.fails
        if subject.endswith(".packed"):
            self.packed.append((subject, LiveSlice.model_validate_json(zlib.decompress(payload))))
        else:
            self.sent.append((subject, LiveSlice.model_validate_json(payload)))


@dataclass
class Watched:
    """The view of one log, on its own."""

    broker: FakeBroker = field(default_factory=FakeBroker)
    core: ProjectorCore = field(default_factory=lambda: ProjectorCore(CLUSTER))
    time: FakeTime = field(default_factory=FakeTime)

    def __post_init__(self) -> None:
        self.sink = ViewSink(CLUSTER, STREAM, self.time)

    async def fold(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            self.core.apply(fact)
        await self.sink.after_fold(facts, last_seq=self.core.last_seq, now=Instant(0))

    def told(self) -> list[int]:
        return [fact.seq for subject, one in self.broker.sent if ".public." in subject for fact in one.facts]


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    watched = Watched()
    await watched.sink.open(watched.core, watched.broker, LeaderHandle())  # type: ignore[arg-type]
    yield watched
    await watched.sink.close()


def dropped() -> float:
    return REGISTRY.get_sample_value("muster_view_slices_dropped_total", {"log": STREAM}) or 0.0


def life(jobs: int) -> list[Fact]:
    story = Story()
    for number in range(jobs):
        story.routed(a_job(number))
    return story.facts


async def test_what_comes_within_one_interval_goes_in_one_slice(watched: Watched) -> None:
    facts = life(40)
    loop = asyncio.get_running_loop()
    await until(lambda: watched.broker.sent)  # the first pulse
    started_s = loop.time()
    for fact in facts:
        await watched.fold([fact])
    await until(lambda: len(watched.told()) == len(facts))
    slices = [one for subject, one in watched.broker.sent if ".public." in subject and one.facts]
    assert len(slices) <= 2 + (loop.time() - started_s) / SLICE_S
    assert len(slices) < len(facts) / 4


async def test_every_slice_goes_out_deflated_too(watched: Watched) -> None:
    await watched.fold(life(3))
    await until(lambda: len(watched.told()) == 3)
    await until(lambda: len(watched.broker.packed) == len(watched.broker.sent))
    assert watched.broker.packed == [(f"{subject[:-5]}packed", one) for subject, one in watched.broker.sent]


def stop(broker: FakeBroker, trouble: str) -> None:
    broker.is_connected = trouble != "away"
    broker.pending_data_size = PENDING_BYTES_MAX + 1 if trouble == "slow" else 0


@pytest.mark.parametrize("trouble", ["away", "slow"])
async def test_what_the_broker_does_not_take_for_a_moment_goes_out_later(watched: Watched, trouble: str) -> None:
    facts = life(3)
    await watched.fold(facts[:1])
    await until(lambda: watched.told() == [1])
    stop(watched.broker, trouble)
    await watched.fold(facts[1:2])
    stop(watched.broker, "none")
    await watched.fold(facts[2:])
    await until(lambda: 3 in watched.told())
    assert watched.told() == [1, 2, 3]
    assert [one.prev for _, one in watched.broker.sent if one.audience == "public" and one.facts][1] == 1


@pytest.mark.parametrize("trouble", ["away", "slow"])
async def test_what_the_broker_does_not_take_for_long_is_missing_and_seen_to_be(watched: Watched, trouble: str) -> None:
    facts = life(3)
    await watched.fold(facts[:1])
    await until(lambda: watched.told() == [1])
    stop(watched.broker, trouble)
    before = dropped()
    await watched.fold(facts[1:2])
    watched.time.advance(HELD_S_MAX)
    await until(lambda: dropped() > before)
    stop(watched.broker, "none")
    await watched.fold(facts[2:])
    await until(lambda: 3 in watched.told())
    assert watched.told() == [1, 3]
    last = next(one for _, one in reversed(watched.broker.sent) if one.audience == "public" and one.facts)
    assert last.prev == 2


async def test_what_ends_the_sender_ends_the_service(watched: Watched) -> None:
    await until(lambda: watched.broker.sent)
    watched.broker.fails = OSError("broken")
    facts = life(1)
    await watched.fold(facts)
    await until(lambda: watched.sink.has_ended)
    with pytest.raises(OSError, match="broken"):
        await watched.sink.after_fold(facts, last_seq=1, now=Instant(0))


async def test_after_the_lead_is_lost_nothing_is_told_or_kept(watched: Watched) -> None:
    await watched.sink.close()
    before = len(watched.broker.sent)
    for fact in life(3):
        watched.core.apply(fact)
    assert watched.core.take_shown(after=0).jobs == {}
    assert len(watched.broker.sent) == before


@dataclass
class Recorded:
    """A sink that notes what is asked of it."""

    name: str
    log: list[str]
    fails_at: str = ""

    def note(self, what: str) -> None:
        self.log.append(f"{what} {self.name}")
        if what == self.fails_at:
            raise RuntimeError(self.name)

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        self.note("open")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        self.note("fold")

    async def close(self) -> None:
        self.note("close")


async def test_every_sink_is_closed_also_if_one_cannot_be() -> None:
    log: list[str] = []
    sinks = Sinks(Recorded("a", log), Recorded("b", log, fails_at="close"), Recorded("c", log))
    await sinks.open(ProjectorCore(CLUSTER), Client(), LeaderHandle())
    with pytest.raises(RuntimeError, match="b"):
        await sinks.close()
    assert log == ["open a", "open b", "open c", "close c", "close b", "close a"]


def test_a_job_that_prints_much_leaves_room_for_the_others() -> None:
    allowance = Allowance()
    assert allowance.takes("loud", JOB_BYTES_MAX, now_s=0.0)
    assert not allowance.takes("loud", 1, now_s=0.5)
    assert allowance.takes("quiet", 1, now_s=0.5)
    assert allowance.takes("loud", 1, now_s=WINDOW_S)


def test_all_jobs_together_are_bounded() -> None:
    allowance = Allowance()
    passed = sum(JOB_BYTES_MAX for number in range(100) if allowance.takes(str(number), JOB_BYTES_MAX, now_s=0.0))
    assert passed == BYTES_MAX
