"""A leader stopped in the middle, taken over, and continued: the broker refuses what it still wanted to say."""

import os
import signal
from pathlib import Path

import pytest

from kit.stack.living import PASSED, Harness, job, open_harness, options, second
from kit.waiting import until_async

pytestmark = [pytest.mark.connected]


async def terms(harness: Harness) -> int:
    """How many scheduler leaders there have been."""
    return sum(fact.writer == "scheduler" and fact.name == "term-started" for fact in await harness.facts())


async def test_a_stopped_leader_is_replaced_and_says_nothing_more_when_it_continues(tmp_path: Path) -> None:
    start = options(tmp_path, split=True, services=PASSED)
    async with open_harness(start) as harness, second("scheduler", harness):
        before = await terms(harness)
        leader = harness.pid("scheduler")
        accepted = [(await harness.muster.submit(job(f"before-{index}", run_s=2.0))).id for index in range(40)]
        os.kill(leader, signal.SIGSTOP)
        try:
            accepted += [(await harness.muster.submit(job(f"during-{index}"))).id for index in range(40)]

            async def replaced() -> bool:
                return await terms(harness) > before

            await until_async(replaced)
        finally:
            os.kill(leader, signal.SIGCONT)
        accepted += [(await harness.muster.submit(job(f"after-{index}"))).id for index in range(40)]
        await harness.ended(accepted)
        assert await harness.violations(accepted) == []
