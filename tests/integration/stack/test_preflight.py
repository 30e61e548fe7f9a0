"""A failing pre-flight, through every service on real servers: the gang goes elsewhere, and its owner pays nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.core import Fact
from muster.schemas.facts.job import JobPlaced, JobQueued, JobRunning, QueuedReason
from muster.schemas.facts.operations import CheckOutcome, ChecksReported, PreflightFailed, PreflightPassed
from muster.schemas.job import Phase
from muster.schemas.labels import PREFLIGHT

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

BAD = "gpu-0001"
SETTINGS = {"default": "quick", "gpus_least": 8, "simulated": {"check_s": 0.2, "action_s": 0.5,
            "bad_nodes": {BAD: "gpu-health"}}}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    start = options(Path(tmp_path_factory.mktemp("harness")), nodes=8)
    settings = {**start.settings, "preflight": SETTINGS}
    async with open_harness(start.model_copy(update={"settings": settings})) as running:
        yield running


async def story_of(harness: Harness, job_id: str) -> list[Fact]:
    return [fact for fact in await harness.facts() if fact.subject_id == job_id]


async def test_a_gang_that_fails_on_a_bad_node_runs_whole_without_it_and_uses_no_retry(harness: Harness) -> None:
    wanted = job("large", gpus=8, replicas=7, retries=0)
    submitted = await harness.muster.submit(wanted)
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.SUCCEEDED, ended
    facts = await story_of(harness, submitted.id)
    failed = [fact.payload for fact in facts if isinstance(fact.payload, PreflightFailed)]
    placed = [fact.payload for fact in facts if isinstance(fact.payload, JobPlaced)]
    again = [fact.payload for fact in facts if isinstance(fact.payload, JobQueued)][1:]
    running = [fact.payload for fact in facts if isinstance(fact.payload, JobRunning)]
    assert [one.nodes for one in failed] == [(BAD,)], "a gang of seven nodes out of eight"
    assert len(placed) == 2
    assert {one.reason for one in again} <= {QueuedReason.PREFLIGHT_FAILED}
    assert BAD not in {slot.node for slot in placed[-1].slots}
    assert [one.preflight for one in running] == ["quick"]
    assert await harness.violations([submitted.id]) == []


async def test_the_bad_node_is_repaired_checked_and_given_back(harness: Harness) -> None:
    async def is_back() -> bool:
        return "healthy" in [fact.name for fact in await story_of(harness, BAD)]

    await until_async(is_back)
    names = [fact.name for fact in await story_of(harness, BAD)]
    repaired = names[names.index("suspect") :]
    steps = ("withheld", "action-requested", "action-ended", "checks-reported", "healthy")
    places = [len(repaired) - 1 - repaired[::-1].index(step) for step in steps]
    assert places == sorted(places), repaired


async def test_a_job_that_never_passes_ends_after_a_few_runs_and_says_why(harness: Harness) -> None:
    never = job("never", gpus=8).model_copy(update={"labels": {PREFLIGHT: "fail"}})
    submitted = await harness.muster.submit(never)
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.FAILED
    assert "runs in a row ended before their first step" in ended.reason
    facts = await story_of(harness, submitted.id)
    assert not any(isinstance(fact.payload, JobRunning) for fact in facts)


async def test_what_could_not_run_lets_the_job_pass_and_is_told(harness: Harness) -> None:
    blind = job("blind", gpus=8)
    spec = blind.model_copy(update={"labels": {**blind.labels, PREFLIGHT: "cannot-run"}})
    submitted = await harness.muster.submit(spec)
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.SUCCEEDED
    facts = await story_of(harness, submitted.id)
    (passed,) = (fact.payload for fact in facts if isinstance(fact.payload, PreflightPassed))
    assert len(passed.warned) == 1
    assert "could not run" in passed.warned[0]
    (report,) = (fact.payload for fact in facts if isinstance(fact.payload, ChecksReported))
    assert CheckOutcome.CANNOT_RUN in {one.outcome for one in report.results}


async def test_small_jobs_and_those_that_refuse_are_not_checked(harness: Harness) -> None:
    small = await harness.muster.submit(job("small"))
    refuses = await harness.muster.submit(job("refuses", gpus=8, preflight="none"))
    for submitted in (small, refuses):
        (ended,) = await harness.ended([submitted.id])
        assert ended.phase is Phase.SUCCEEDED
        names = [fact.name for fact in await story_of(harness, submitted.id)]
        assert "checks-reported" not in names
        assert "preflight-passed" not in names
