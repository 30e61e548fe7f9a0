"""From a fault on an exporter's page to a node that jobs avoid: exporters, telemetry, health, scheduler and agent."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.core import Fact
from muster.core.instant import seconds_between
from muster.schemas.facts.health import FaultObserved
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

INTERVAL_S = 1.0
WORK = {"simulated": {"check_s": 0.2, "action_s": 0.3}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    start = options(Path(tmp_path_factory.mktemp("harness")), nodes=6)
    settings = {
        **start.settings,
        "preflight": WORK,
        "simulation": {**start.settings["simulation"], "telemetry_interval_s": INTERVAL_S},  # type: ignore[dict-item]
        "telemetry": {"interval_s": INTERVAL_S},
        "health": {"steady_s": 3.0},
    }
    async with open_harness(start.model_copy(update={"settings": settings})) as running:
        yield running


async def inject(harness: Harness, node: str, fault: str, *, gpu: int | None, value: float = 1.0) -> int:
    """It is so on the node's page from now on; when that was."""
    base = harness.settings.telemetry.url.partition("/nodes/")[0]
    async with httpx.AsyncClient(trust_env=False) as client:
        body = {"node": node, "gpu": gpu, "fault": fault, "value": value}
        at = time.time_ns()
        (await client.post(f"{base}/_faults", json=body)).raise_for_status()
    return at


async def of(harness: Harness, subject: str) -> list[Fact]:
    return [fact for fact in await harness.facts() if fact.subject_id == subject]


async def seen(harness: Harness, name: str, subject: str) -> Fact:
    """The fact once it stands in the log."""

    async def is_there() -> bool:
        return any(fact.name == name for fact in await of(harness, subject))

    await until_async(is_there)
    return next(fact for fact in await of(harness, subject) if fact.name == name)


async def test_a_fault_on_the_page_keeps_jobs_away_within_an_interval_and_a_second(harness: Harness) -> None:
    submitted = await harness.muster.submit(job("sixteen", gpus=8, replicas=2, run_s=600.0, retries=0))
    view = await harness.job_that(submitted.id, lambda one: one.phase is Phase.RUNNING)
    sick = view.nodes[0]
    at = await inject(harness, sick, "xid", gpu=3, value=79)
    avoided = await seen(harness, "withhold-requested", sick)
    assert seconds_between(at, avoided.time) < INTERVAL_S + 1.0
    moved = await harness.job_that(submitted.id, lambda one: one.phase is Phase.RUNNING and sick not in one.nodes)
    assert moved.retries_used == 0
    healthy = await seen(harness, "healthy", sick)
    assert healthy.writer == "health"
    await harness.muster.cancel(submitted.id)


async def test_a_gpu_whose_series_stop_is_missed(harness: Harness) -> None:
    node = "gpu-0005"
    await inject(harness, node, "off-bus", gpu=1)
    fact = await seen(harness, "fault-observed", node)
    assert isinstance(fact.payload, FaultObserved)
    assert fact.payload.code == "gpu-missing"
    await seen(harness, "healthy", node)


async def test_a_row_that_waits_for_a_reset_gets_it_and_the_page_shows_the_end(harness: Harness) -> None:
    await inject(harness, "gpu-0004", "remap-pending", gpu=2)
    fact = await seen(harness, "fault-observed", "gpu-0004")
    assert isinstance(fact.payload, FaultObserved)
    cleared = await seen(harness, "fault-cleared", "gpu-0004")
    healthy = await seen(harness, "healthy", fact.payload.device)
    assert cleared.seq < healthy.seq
