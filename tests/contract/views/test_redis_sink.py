"""The read model in a real Redis: complete, filled again after any loss, never of two logs."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.client import Client
from redis import Redis

from kit.projector import Story, a_job
from kit.servers import redis_admin
from kit.waiting import until
from muster.bus.service import LeaderHandle
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.projector.core import FedProjectorCore, ProjectorCore
from muster.projector.sink import LOOK_S, RedisSink
from muster.schemas.facts.control import CheckpointRequested
from muster.schemas.facts.job import JobFinished
from muster.schemas.job import Phase
from muster.schemas.readmodel import ReadModel, fact_body, fact_range
from muster.schemas.views import FactView, JobView

pytestmark = pytest.mark.connected

MODEL = ReadModel("atlas")
FED = ReadModel("fed")


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    client = Redis.from_url(redis_admin(redis_url))
    client.flushall()
    yield client
    client.close()


class Follower:
    """A shell that folds what it is given. core: of the federation; else of a cluster."""

    def __init__(
        self, url: str, *, log: str = "first", ended_max: int = 100, core: FedProjectorCore | None = None
    ) -> None:
        async def identity(_: Client) -> str:
            return log

        self.core = core or ProjectorCore("atlas")
        self.leads = True
        self.asked = 0  # how often its writer asked whether it leads
        model = FED if core else MODEL
        self.sink = RedisSink(redis_url=url, model=model, identity=identity, ended_max=ended_max)

    def is_leading(self) -> bool:
        self.asked += 1
        return self.leads

    async def recover(self, facts: list[Fact]) -> None:
        for fact in facts:
            self.core.apply(fact)
        await self.sink.open(self.core, Client(), LeaderHandle(leads=self.is_leading))
        await self.sink.stored()

    async def fold(self, facts: list[Fact]) -> None:
        for fact in facts:
            self.core.apply(fact)
        await self.sink.after_fold(facts, last_seq=self.core.last_seq, now=Instant(0))
        await self.sink.stored()


@pytest.fixture
async def follower(redis: Redis, redis_url: str) -> AsyncIterator[Follower]:
    follower = Follower(redis_url)
    yield follower
    await follower.sink.close()


def image(redis: Redis) -> dict[str, object]:
    """Everything that a reader can find, without `recent`'s division into entries."""
    found: dict[str, object] = {}
    for key in sorted(redis.scan_iter("muster:*")):
        name = key.decode()
        match redis.type(key):
            case b"hash":
                found[name] = redis.hgetall(key)
            case b"zset":
                found[name] = redis.zrange(key, 0, -1)
            case b"string":
                found[name] = redis.get(key)
            case _:
                fields = [field for _, entry in redis.xrange(key) for field in entry.items()]
                found[name] = fields
    return found


def life(*, jobs: int = 3) -> Story:
    story = Story()
    story.node("n1")
    story.queue("blue")
    for number in range(jobs):
        job = a_job(number)
        story.routed(job)
        story.queued(job)
        if number % 3 < 2:
            story.placed(job)
            story.running(job)
        if number % 3 < 1:
            story.ended(job)
    return story


async def test_rows_lists_facts_and_the_sequence_stand_there_together(redis: Redis, follower: Follower) -> None:
    await follower.recover([])
    await follower.fold(life().facts)
    first, second, third = (a_job(number) for number in range(3))
    assert JobView.model_validate_json(redis.hget(MODEL.key("jobs"), second.id)).phase is Phase.RUNNING
    assert redis.zrange(MODEL.phase(Phase.QUEUED), 0, -1) == [f"{2:020d}:{third.id}".encode()]
    assert redis.zcard(MODEL.team("blue")) == 3
    assert redis.zcard(MODEL.key("ended")) == 1
    low, high = fact_range(first.id)
    told = [FactView.model_validate_json(fact_body(m)) for m in redis.zrangebylex(MODEL.key("facts"), low, high)]
    assert [fact.name for fact in told] == ["routed", "queued", "placed", "running", "succeeded"]
    assert redis.hget(MODEL.key("marker"), "seq") == str(len(life().facts)).encode()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 34), max_size=4), crash=st.booleans(), flush=st.booleans())
async def test_however_the_log_was_followed_the_rows_are_the_same(
    redis: Redis, redis_url: str, cuts: list[int], crash: bool, flush: bool
) -> None:
    """Batches, crashes of the projector and losses of Redis leave no trace."""
    facts = life(jobs=9).facts
    redis.flushall()
    whole = Follower(redis_url)
    await whole.recover(facts)
    await whole.sink.close()
    wanted = image(redis)

    redis.flushall()
    follower = Follower(redis_url)
    await follower.recover([])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(facts)], strict=True):
        if crash:
            await follower.sink.close()
            follower = Follower(redis_url)
            await follower.recover(facts[:start])
        if flush and start < end:  # a loss is noticed at the next change
            redis.flushall()
        await follower.fold(facts[start:end])
    await follower.fold([])
    await follower.sink.close()
    assert image(redis) == wanted


async def test_facts_folded_while_nobody_wrote_are_stored_too(redis: Redis, redis_url: str) -> None:
    facts = life().facts
    early = Follower(redis_url)
    await early.recover(facts[:5])
    await early.sink.close()
    late = Follower(redis_url)
    await late.recover(facts)
    await late.sink.close()
    assert redis.zcard(MODEL.key("facts")) == sum(1 for fact in facts if fact.kind == "job")


async def test_whoever_leads_no_more_puts_no_old_rows_over_those_of_its_successor(redis: Redis, redis_url: str) -> None:
    """It was stopped for longer than its lease, with changes in hand."""
    facts = life().facts
    old, new = Follower(redis_url), Follower(redis_url)
    await old.recover(facts[:5])
    old.leads = False
    await new.recover(facts)
    wanted = image(redis)
    for fact in facts[5:8]:
        old.core.apply(fact)
    await old.sink.after_fold(facts[5:8], last_seq=old.core.last_seq, now=Instant(0))
    before = old.asked
    await until(lambda: old.asked > before + 1)
    for follower in (old, new):
        await follower.sink.close()
    assert image(redis) == wanted


async def test_a_job_that_ended_unseen_does_not_stand_as_live_for_ever(redis: Redis, redis_url: str) -> None:
    job = a_job(1)
    story = Story()
    story.routed(job)
    story.queued(job)
    before = Follower(redis_url)
    await before.recover(story.facts)
    await before.sink.close()
    story.queue("blue")
    after = Follower(redis_url)
    await after.recover(story.facts[2:])  # as from a checkpoint that no longer knows the job
    await after.sink.close()
    assert redis.hlen(MODEL.key("jobs")) == 0
    assert redis.zcard(MODEL.phase(Phase.QUEUED)) == 0


async def test_the_sequence_follows_facts_that_change_nothing(redis: Redis, redis_url: str) -> None:
    """Else a dashboard would find itself behind the live view for as long as nothing else happens."""
    story = Story()
    story.queue("blue")
    follower = Follower(redis_url)
    await follower.recover(story.facts)
    follower.core.apply(story.add("log", "x", "checkpoint-requested", CheckpointRequested()))
    async with asyncio.timeout(LOOK_S / 2):
        await follower.fold([])
    await follower.sink.close()
    assert redis.hget(MODEL.key("marker"), "seq") == b"2"


async def test_a_redis_that_came_back_with_an_older_image_is_filled_again(redis: Redis, redis_url: str) -> None:
    """As after a failover to a replica that lagged: rows that changed in between would be wrong for ever."""
    story = life(jobs=2)
    follower = Follower(redis_url)
    await follower.recover(story.facts)
    old = {key: redis.dump(key) for key in redis.keys("*")}
    known = len(story.facts)
    story.ended(a_job(1))  # what the older image lacks
    await follower.fold(story.facts[known:])
    redis.flushall()
    for key, value in old.items():
        redis.restore(key, 0, value)
    known = len(story.facts)
    story.routed(a_job(9))
    await follower.fold(story.facts[known:])
    await follower.sink.close()
    found = image(redis)
    redis.flushall()
    anew = Follower(redis_url)
    await anew.recover(story.facts)
    await anew.sink.close()
    assert found == image(redis)


async def test_rows_of_another_log_go_away(redis: Redis, redis_url: str) -> None:
    one = Follower(redis_url, log="first")
    await one.recover(life().facts)
    await one.sink.close()
    other = Follower(redis_url, log="second")
    story = Story()
    story.routed(a_job(77))
    await other.recover(story.facts)
    await other.sink.close()
    assert redis.hkeys(MODEL.key("jobs")) == [a_job(77).id.encode()]
    assert redis.exists(MODEL.key("nodes")) == 0


async def test_ended_jobs_stay_within_the_bound(redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.projector.sink.TRIM_EVERY_ENDED", 5)
    follower = Follower(redis_url, ended_max=10)
    await follower.recover([])
    story = Story()
    for number in range(40):
        story.routed(a_job(number))
        story.ended(a_job(number))
    for start in range(0, 80, 10):
        await follower.fold(story.facts[start : start + 10])
    await follower.sink.close()
    assert redis.hlen(MODEL.key("jobs")) == 10
    assert redis.zcard(MODEL.team("blue")) == 10
    assert redis.zcard(MODEL.key("facts")) == 20
    assert redis.hexists(MODEL.key("jobs"), a_job(39).id)


def given_to_clusters(*, jobs: int, ended: int) -> Story:
    """The federation's log: jobs that have a cluster, the first of which ended."""
    story = Story("federation")
    for number in range(jobs):
        story.submitted(a_job(number))
        story.routed(a_job(number))
    for number in range(ended):
        story.came_back(a_job(number))
    return story


@pytest.mark.parametrize("clusters", [1, 2])
async def test_which_cluster_has_a_live_job_stands_there_only_where_there_are_several(
    redis: Redis, redis_url: str, clusters: int
) -> None:
    fed = Follower(redis_url, core=FedProjectorCore(clusters=clusters))
    await fed.recover([])
    story = given_to_clusters(jobs=2, ended=1)
    await fed.fold(story.facts[:-1])
    before = redis.hgetall(FED.key("assigned"))
    await fed.fold(story.facts[-1:])
    await fed.sink.close()
    live, ended = a_job(1).id.encode(), a_job(0).id.encode()
    assert before == ({} if clusters == 1 else {live: b"atlas", ended: b"atlas"})
    assert redis.hgetall(FED.key("assigned")) == ({} if clusters == 1 else {live: b"atlas"})
    assert redis.hexists(FED.key("jobs"), ended) == (clusters > 1)


async def test_which_cluster_had_a_job_is_written_again_after_a_loss(redis: Redis, redis_url: str) -> None:
    story = given_to_clusters(jobs=4, ended=2)
    fed = Follower(redis_url, core=FedProjectorCore(clusters=2))
    await fed.recover(story.facts)
    wanted = image(redis)
    redis.flushall()
    await fed.fold([story.submitted(a_job(9))])
    await fed.fold([story.add("job", a_job(9).id, "cancelled", JobFinished())])
    await fed.sink.close()
    found = image(redis)
    for key in (FED.key("assigned"), FED.key("live")):
        assert found[key] == wanted[key]
    assert redis.hlen(FED.key("jobs")) == 5


async def test_a_live_job_that_the_log_knows_no_more_has_no_cluster_any_more(redis: Redis, redis_url: str) -> None:
    story = given_to_clusters(jobs=1, ended=0)
    before = Follower(redis_url, core=FedProjectorCore(clusters=2))
    await before.recover(story.facts)
    await before.sink.close()
    story.submitted(a_job(5))
    after = Follower(redis_url, core=FedProjectorCore(clusters=2))
    await after.recover(story.facts[-1:])
    await after.sink.close()
    assert redis.hgetall(FED.key("assigned")) == {a_job(5).id.encode(): b""}


async def test_ended_jobs_of_the_federation_are_forgotten_with_their_facts(
    redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is listed twice, since a checkpoint did not say when it ended."""
    monkeypatch.setattr("muster.projector.sink.TRIM_EVERY_ENDED", 5)
    fed = Follower(redis_url, ended_max=10, core=FedProjectorCore(clusters=2))
    await fed.recover([])
    redis.zadd(FED.key("ended"), {f"{0:020d}:{a_job(0).id}": 0})
    story = given_to_clusters(jobs=40, ended=40)
    await fed.fold(story.facts[:80])
    for start in range(80, 120, 10):
        await fed.fold(story.facts[start : start + 10])
    await fed.sink.close()
    assert redis.hlen(FED.key("jobs")) == redis.zcard(FED.key("ended")) == 10
    assert redis.zcard(FED.key("facts")) == 20  # `submitted` and `job-ended` of each


async def test_two_projections_keep_apart(redis: Redis, redis_url: str) -> None:
    async def identity(_: Client) -> str:
        return "fed"

    core = FedProjectorCore()
    sink = RedisSink(redis_url=redis_url, model=ReadModel("fed"), identity=identity)
    log = Follower(redis_url)
    await log.recover(life().facts)
    before = image(redis)
    await sink.open(core, Client(), LeaderHandle())
    await sink.stored()
    await sink.close()
    await log.sink.close()
    after = image(redis)
    assert {key: value for key, value in after.items() if "atlas" in key} == before
