"""What the metrics tell of choices."""

from collections.abc import AsyncIterator
from typing import cast

import pytest_asyncio
from nats.aio.client import Client
from prometheus_client import REGISTRY

from kit.scaler import CLUSTER, VirtualScaler, composable, config
from kit.scaler_jobs import busy
from muster.bus.service import LeaderHandle
from muster.scaler.app import ChoicesSink
from muster.scaler.core import ScalerCore
from muster.scaler.core.choices import ADD, ATTACH


class Followed:
    """A world whose folds the sink follows."""

    def __init__(self) -> None:
        self.world = VirtualScaler(config(composable()), pool=4)
        busy(self.world)
        self.sink = ChoicesSink(CLUSTER)
        self.seen = 0

    async def open(self) -> None:
        self.seen = len(self.world.log)
        await self.sink.open(self.world.core, cast("Client", None), LeaderHandle(lambda: None, lambda: True))

    async def look(self) -> None:
        facts, self.seen = self.world.log[self.seen :], len(self.world.log)
        await self.sink.after_fold(facts, last_seq=self.seen, now=self.world.now)


@pytest_asyncio.fixture
async def it() -> AsyncIterator[Followed]:
    followed = Followed()
    await followed.open()
    yield followed
    await followed.sink.close()


def sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"muster_scale_{name}", labels)


def ended(choice: str, outcome: str, case: int = 1) -> float:
    return sample("choices_total", choice=choice, case=str(case), outcome=outcome) or 0.0


async def test_a_choice_is_open_until_it_is_done(it: Followed) -> None:
    done, took_s = ended(ATTACH, "done"), sample("choice_seconds_sum", choice=ATTACH) or 0.0
    it.world.submit("gang", replicas=2, cpu_milli=1_000)
    await it.look()
    assert sample("waiting_jobs", cluster=CLUSTER) == 1
    (chosen,) = it.world.settle()
    await it.look()
    assert (sample("choices_open", choice=ATTACH), sample("choices_open", choice=ADD)) == (1, 0)
    names = it.world.accept(chosen)
    it.world.skip(42)
    for name in names:
        it.world.online(name)
    it.world.settle()
    await it.look()
    assert sample("choices_open", choice=ATTACH) == 0
    assert ended(ATTACH, "done") - done == 1
    assert (sample("choice_seconds_sum", choice=ATTACH) or 0.0) - took_s == 42


async def test_one_that_fails_is_told_by_its_case_also_to_who_leads_since_then(it: Followed) -> None:
    failed = ended(ATTACH, "failed")
    it.world.submit("gang", replicas=2, cpu_milli=1_000)
    (chosen,) = it.world.settle()
    await it.sink.close()
    assert sample("choices_open", choice=ATTACH) is None, "a follower shows nothing"
    await it.open()
    assert sample("choices_open", choice=ATTACH) == 1
    it.world.refuse(chosen.subject_id)
    it.world.decide_once("scaler")
    await it.look()
    assert ended(ATTACH, "failed") - failed == 1


async def test_nothing_chosen_is_told_with_what_stands_in_the_way(it: Followed) -> None:
    before = ended("nothing-chosen", "pool")
    it.world.submit("big", replicas=8, cpu_milli=1_000)
    it.world.settle()
    await it.look()
    assert it.world.log[-1].name == "nothing-chosen"
    assert ended("nothing-chosen", "pool") - before == 1


async def test_where_nobody_ever_waited_nobody_is_shown_to_wait() -> None:
    sink = ChoicesSink("fresh")
    await sink.open(ScalerCore(config()), cast("Client", None), LeaderHandle(lambda: None, lambda: True))
    assert sample("waiting_jobs", cluster="fresh") == 0
    await sink.close()


async def test_jobs_that_wait_no_longer_are_not_shown(it: Followed) -> None:
    one = it.world.submit("one", cpu_milli=1_000)
    await it.look()
    assert sample("waiting_jobs", cluster=CLUSTER) == 1
    it.world.end(one)
    await it.look()
    assert sample("waiting_jobs", cluster=CLUSTER) == 0
