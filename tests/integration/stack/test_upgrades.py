"""A campaign through every service on real servers: jobs run on, the upgrader is killed, and every node is done."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import PASSED, Harness, job, open_harness, options
from kit.waiting import until_async
from muster.core import Fact
from muster.schemas.campaigns import CampaignView
from muster.schemas.facts.job import JobStopRequested
from muster.schemas.facts.upgrade import CampaignEnded, CampaignSpec, NodeStepped, Step
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

NODES = 4
CORDONED = "gpu-0004"
TURN = ["cordoned", "drained", "upgrading", "validating", "done"]
SPEC = CampaignSpec.model_validate(
    {"name": "driver-580", "component": "driver", "version": "580.105", "max_unavailable": "2", "takes_s": 2.0}
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    services = (*PASSED, "health", "upgrader")
    start = options(Path(tmp_path_factory.mktemp("harness")), nodes=NODES, split=True, services=services)
    work = {"simulated": {"check_s": 0.2, "action_s": 0.5}}
    async with open_harness(start.model_copy(update={"settings": {**start.settings, "preflight": work}})) as running:
        yield running


async def steps_of(harness: Harness, node: str) -> list[str]:
    facts: list[Fact] = await harness.facts()
    told = [fact.payload for fact in facts if isinstance(fact.payload, NodeStepped) and fact.subject_id == node]
    return [one.step.value for one in told]


async def shown(harness: Harness) -> CampaignView:
    return await harness.muster.campaign(SPEC.name)


async def test_every_node_has_its_turn_and_no_job_is_stopped(harness: Harness) -> None:
    busy = job("busy", gpus=8, replicas=2, run_s=12.0)
    spec = busy.model_copy(update={"total_run_time_s": 15.0, "preemptible": False})
    submitted = await harness.muster.submit(spec)

    async def runs() -> bool:
        return (await harness.muster.get(submitted.id)).phase is Phase.RUNNING

    await until_async(runs)
    await harness.muster.cordon(CORDONED, reason="fan")
    preview = await harness.muster.preview_campaign(SPEC)
    assert [course.way for course in preview.courses] == ["campaign", "naive drain", "cordon and wait"]
    assert preview.courses[0].jobs_killed == 0
    assert preview.courses[1].jobs_killed == 1
    begun = await harness.muster.start_campaign(SPEC)
    assert begun is not None
    assert sum(begun.steps.values()) == NODES

    async def is_under_way() -> bool:
        return bool((await shown(harness)).steps.get(Step.DONE, 0))

    await until_async(is_under_way)
    await harness.kill("upgrader")

    async def is_over() -> bool:
        return any(isinstance(fact.payload, CampaignEnded) for fact in await harness.facts())

    await until_async(is_over)
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.SUCCEEDED
    facts = await harness.facts()
    assert not any(isinstance(fact.payload, JobStopRequested) for fact in facts)
    for number in range(1, NODES + 1):
        steps = await steps_of(harness, f"gpu-{number:04d}")
        assert [step for step in steps if step != Step.WAITING.value] == TURN
    (over,) = [fact.payload for fact in facts if isinstance(fact.payload, CampaignEnded)]
    assert (over.done, over.failed) == (NODES, 0)
    assert await harness.violations([submitted.id]) == []


async def test_a_cordon_of_a_person_outlives_the_upgrade(harness: Harness) -> None:
    (node,) = [view for view in await harness.muster.nodes() if view.name == CORDONED]
    assert {reason.what for reason in node.reasons} == {"cordoned"}
    assert not node.usable


async def test_a_campaign_that_is_over_is_still_shown(harness: Harness) -> None:
    found = await shown(harness)
    assert (found.state, found.steps) == ("ended", {"done": NODES})
