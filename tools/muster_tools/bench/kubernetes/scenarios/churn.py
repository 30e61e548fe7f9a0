"""What a crowd of followers costs: the same few jobs come and go, first without followers, then with each crowd."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from muster_tools.bench.fresh_stack import FreshStack
from muster_tools.bench.kubernetes import bounds
from muster_tools.bench.kubernetes.counting import requests_of
from muster_tools.bench.kubernetes.followers import Received, informers, subscribers
from muster_tools.bench.kubernetes.plan import GPUS_PER_NODE
from muster_tools.bench.kubernetes.result import API_SERVER, Crowd
from muster_tools.bench.kubernetes.stage import Stage, calm
from muster_tools.bench.load import steady, submit
from muster_tools.bench.workload import LONG_RUN_S, RUN_LABEL, TEAM

CROWDS = 3
"""Nobody, subscribers, informers: each has its share of what is free."""
JOBS_MAX = 100


@asynccontextmanager
async def nobody() -> AsyncIterator[Received]:
    """No follower at all."""
    yield Received()


async def crowds(stage: Stage, stack: FreshStack) -> tuple[Crowd, ...]:
    """The costs of nobody, of subscribers of the live view, and of informers, one after the other."""
    count = stage.plan.subscribers
    if not count:
        return ()
    await calm(stage.client)
    free = stage.plan.nodes * GPUS_PER_NODE - sum(stage.plan.gpus)
    jobs = min(JOBS_MAX, free // CROWDS)
    following: tuple[tuple[str, int, AbstractAsyncContextManager[Received]], ...] = (
        ("followers", 0, nobody()),
        ("subscribers of Muster's live view", count, subscribers(count, url=stack.url, token=stack.token)),
        ("informers of pods", count, informers(count, stage.plane)),
    )
    found = []
    for number, (what, followers, crowd) in enumerate(following):
        found.append(await _cost(stage, stack, what, followers, crowd, jobs=jobs, prefix=f"churn-{number}"))
    return tuple(found)


async def _cost(
    stage: Stage,
    stack: FreshStack,
    what: str,
    count: int,
    crowd: AbstractAsyncContextManager[Received],
    *,
    jobs: int,
    prefix: str,
) -> Crowd:
    loop = asyncio.get_running_loop()
    requests, usage, began_s = await requests_of(stage.client), stage.plane.usage()[API_SERVER], loop.time()
    async with crowd as received:
        await submit(
            _bodies(jobs, prefix=prefix), url=stack.url, token=stack.token, connections=stage.plan.connections,
            pace_s=steady(jobs / bounds.CHURN_S), progress=lambda _count: None,
        )  # fmt: skip
        await asyncio.sleep(bounds.CHURN_REST_S)  # what was submitted last is bound and told to all by then
        after, now = stage.plane.usage()[API_SERVER], loop.time()
        asked = (await requests_of(stage.client)).since(requests)
    return Crowd(
        what=what,
        count=count,
        took_s=now - began_s,
        rss_mib=after.rss_mib - usage.rss_mib,
        cpu_s=after.cpu_s - usage.cpu_s,
        requests=asked,
        received_mib=received.mib,
    )


def _bodies(count: int, *, prefix: str) -> list[tuple[str, bytes]]:
    """(idempotency key, HTTP body) of jobs of one GPU."""
    found = []
    for number in range(count):
        name = f"{prefix}-{number}"
        group = {"gpus": 1, "cpu_milli": 1000, "memory_mib": 1024}
        spec = {"name": name, "team": TEAM, "task_groups": [group], "labels": {RUN_LABEL: f"{LONG_RUN_S:g}"}}
        found.append((name, json.dumps(spec).encode()))
    return found
