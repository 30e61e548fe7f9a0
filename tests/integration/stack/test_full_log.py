"""A cluster's log that is full: accepted jobs wait in FED, it shows, and nothing is lost once there is room."""

from pathlib import Path

import pytest

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.schemas.job import Phase
from muster.schemas.subjects import cluster_log

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240)]

MIB = 1024 * 1024
JOBS_MAX = 2000  # far more than the small log takes


async def refused(harness: Harness) -> float:
    """Appends that the full log refused, over all services."""
    return await harness.metric("muster_append_refused_total", reason="full")


async def test_jobs_wait_in_the_federation_while_the_clusters_log_is_full(tmp_path: Path) -> None:
    accepted: list[str] = []
    async with open_harness(options(tmp_path, log_bytes_max=MIB)) as harness:
        for index in range(JOBS_MAX):
            accepted.append((await harness.muster.submit(job(f"job-{index}", run_s=0.1))).id)
            if index % 20 == 0 and await refused(harness):
                break
        assert await refused(harness), "the log became full"

        async def waits_in_fed() -> bool:
            """A newer job waits, and it shows. One that came just now may be unrouted without being held up."""
            accepted.append((await harness.muster.submit(job(f"late-{len(accepted)}", run_s=0.1))).id)
            why = await harness.muster.why(accepted[-1])
            waiting = await harness.metric("muster_log_source_waiting_messages", log="LOG_local", source="FED")
            return why.reason == "not-routed" and waiting > 0

        await until_async(waits_in_fed)
        assert (await harness.muster.get(accepted[-1])).phase is Phase.SUBMITTED
        full = await harness.metric("muster_log_stored_bytes", log="LOG_local") / MIB
        assert full > 0.9, "how full it is shows"
        known = {fact.subject_id for fact in await harness.facts(cluster_log(harness.settings.cluster))}
        assert accepted[-1] not in known
    async with open_harness(options(tmp_path, log_bytes_max=64 * MIB)) as harness:
        assert {view.phase for view in await harness.ended(accepted)} == {Phase.SUCCEEDED}
        assert await harness.violations(accepted) == []
