"""Following one job where several clusters could tell of it: whose facts are told, and that none is lost by a lag."""

from kit.http.gateway import FED, LOG, FakeFeed, FakeView, fact
from muster.gateway.api.events import DOUBT_EVERY_S, LOOK_EVERY_S, JobFacts
from muster.gateway.feed import Position
from muster.gateway.ports import UnreachableError

JOB = "A" * 26
OTHER = "LOG_borg"


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def wall(self) -> int:
        raise NotImplementedError

    def monotonic_s(self) -> float:
        return self.now_s


class Following:
    """A listener to one job."""

    def __init__(self, *logs: str) -> None:
        self.feed, self.view, self.clock = FakeFeed(), FakeView(), Clock()
        self.view.logs = frozenset(logs)
        self.facts = JobFacts(self.feed, self.view, JOB, time=self.clock, told={})
        self.position: Position = {}

    async def told(self) -> list[tuple[str, int]]:
        return [(one.stream, one.seq) for one in await self.facts.after(self.position)]


async def test_facts_of_a_log_that_is_not_the_jobs_are_not_told() -> None:
    one = Following(FED, LOG)
    one.feed.tell(fact(1))
    one.feed.tell(fact(7, "succeeded", stream=OTHER))
    one.feed.tell(fact(2, job="B" * 26))
    assert await one.told() == [(LOG, 1)]


async def test_facts_that_came_before_the_federation_named_their_cluster_are_told_then_and_once() -> None:
    one = Following(FED)
    for seq in (1, 2):
        one.feed.tell(fact(seq))
    assert await one.told() == []
    one.view.facts[JOB] = [fact(1), fact(2)]
    one.view.logs = frozenset({FED, LOG})
    one.clock.now_s += DOUBT_EVERY_S
    assert await one.told() == [(LOG, 1), (LOG, 2)]
    one.feed.tell(fact(3))
    assert await one.told() == [(LOG, 3)]


async def test_it_is_asked_again_whose_the_job_is_also_where_nothing_is_told_of_it() -> None:
    one = Following(FED)
    assert await one.told() == []
    one.view.facts[JOB] = [fact(5, "succeeded")]
    one.view.logs = frozenset({FED, LOG})
    assert await one.told() == []
    one.clock.now_s += LOOK_EVERY_S
    assert await one.told() == [(LOG, 5)]


async def test_what_came_while_the_read_model_was_away_is_told_afterwards() -> None:
    one = Following(FED, LOG)
    one.feed.tell(fact(1))
    one.view.is_down = True
    for _ in range(2):
        try:
            await one.told()
        except UnreachableError:
            continue
        raise AssertionError("the read model is down")
    one.view.is_down = False
    assert await one.told() == [(LOG, 1)]


async def test_of_a_single_cluster_every_fact_of_the_job_is_told() -> None:
    one = Following()
    one.view.logs = None
    one.feed.tell(fact(1, stream=FED))
    one.feed.tell(fact(2))
    assert await one.told() == [(FED, 1), (LOG, 2)]
