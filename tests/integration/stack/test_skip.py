"""A service that cannot fold a fact stands still, the others go on, and `muster log skip` lets it go on too."""

import sys
from pathlib import Path

import httpx
import pytest

from kit.stack import poisoned as poisoned_services
from kit.stack.living import PASSED, Harness, command, job, open_harness, options
from kit.waiting import until_async
from muster.schemas.job import Phase
from muster.stack.declared import SERVICES

pytestmark = [pytest.mark.connected]


async def conditions(harness: Harness) -> tuple[int, dict[str, dict[str, object]]]:
    """What the process says of its services: status of the answer, and by service what stands there."""
    url = harness.stack.endpoints.metrics[0].replace("/metrics", "/healthz")
    async with httpx.AsyncClient() as client:
        answer = await client.get(url)
    return answer.status_code, {one["service"]: one for one in answer.json()["services"] if one["log"] != "FED"}


@pytest.mark.parametrize("split", [False, True], ids=["one process", "one process each"])
async def test_a_poisoned_service_stands_still_alone_until_the_fact_is_skipped(tmp_path: Path, split: bool) -> None:
    words = (sys.executable, poisoned_services.__file__, "{name}", "{state_dir}")
    chosen = options(tmp_path, split=split, services=PASSED if split else SERVICES).model_copy(
        update={"service_command": words}
    )
    async with open_harness(chosen) as harness:
        poison = (await harness.muster.submit(job(poisoned_services.POISON))).id
        behind = (await harness.muster.submit(job("behind"))).id
        if not split:

            async def stands_still() -> bool:
                return bool((await conditions(harness))[1]["scheduler"]["stopped"])

            await until_async(stands_still)
            status, services = await conditions(harness)
            assert status == 503
            assert "muster log skip" in str(services["scheduler"]["stopped"])
            assert [name for name, one in services.items() if one["stopped"]] == ["scheduler"]
            assert await harness.metric("muster_poisoned", service="scheduler", log="LOG_local") == 1
        assert (await harness.muster.get(behind)).phase is Phase.SUBMITTED, "submitting goes on"
        (seq,) = [fact.seq for fact in await harness.facts() if fact.name == "routed" and fact.subject_id == poison]
        await command(tmp_path, "log", "skip", str(seq), "--service", "scheduler", "--reason", "a test", "--yes")
        assert [view.phase for view in await harness.ended([behind])] == [Phase.SUCCEEDED]
        assert {fact.name for fact in await harness.facts() if fact.subject_id == poison} == {"routed"}
