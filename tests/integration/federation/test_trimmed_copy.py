"""A centre whose copy of a cluster's log was trimmed starts anew, and shows everything as before."""

import shutil
from pathlib import Path

import pytest

from kit.stack.federated import Federation, open_federation
from kit.stack.living import job
from kit.waiting import until_async
from muster.bus.checkpoint_store import CopiedCheckpoints
from muster.bus.clock import SystemTime
from muster.core import Instant
from muster.federation.copier import trim_copy
from muster.schemas.job import Phase
from muster.schemas.subjects import cluster_log

pytestmark = pytest.mark.timeout(600)

EAST = "east"
LOG = cluster_log(EAST)
OFTEN: dict[str, dict[str, object]] = {EAST: {"scheduler": {"checkpoint_every_facts": 60}}}
JOBS = 30
LATE_S = 240.0
SEEN = {"seq": 0}  # where a row was last written is not part of what it says


async def has_two_checkpoints_or_more_facts(harness: Federation) -> bool:
    """Whether the centre has two; a cell that was too busy for the first ones gets something to count."""
    async with harness.connection("projector") as client:
        pointer, _ = await CopiedCheckpoints(client, EAST).pointer(LOG.stream)
    if len(pointer.checkpoints) >= 2:
        return True
    await harness.ended([(await harness.muster.submit(job("one-more", run_s=0.1))).id], patience_s=LATE_S)
    return False


async def shown(harness: Federation, job_ids: list[str]) -> tuple[object, ...]:
    """What people see: every job, and every node."""
    views = [(await harness.muster.get(job_id)).model_copy(update=SEEN) for job_id in job_ids]
    return views, sorted(await harness.muster.nodes(), key=lambda node: node.name)


async def test_the_read_model_of_a_trimmed_copy_is_as_before(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with open_federation(state, EAST, nodes=4, cells=OFTEN) as harness:
        ids = [(await harness.muster.submit(job(f"job-{n}", run_s=0.1))).id for n in range(JOBS)]
        assert {view.phase for view in await harness.ended(ids, patience_s=LATE_S)} == {Phase.SUCCEEDED}
        await until_async(lambda: has_two_checkpoints_or_more_facts(harness), patience_s=LATE_S)

        async def is_trimmed() -> bool:
            async with harness.connection("federation") as client:
                return await trim_copy(client, EAST, keep_s=0.0, now=Instant(SystemTime().wall())) > 0

        await until_async(is_trimmed, patience_s=LATE_S)
        assert (await harness.facts(LOG))[0].seq > 1
        assert (await harness.at_cell(EAST))[0].seq == 1, "the log itself is the cell's to trim"
        before = await shown(harness, ids)
    shutil.rmtree(state / "redis")
    async with open_federation(state, EAST, nodes=4, cells=OFTEN) as harness:
        assert await shown(harness, ids) == before
        late = (await harness.muster.submit(job("late", run_s=0.1))).id
        assert [view.phase for view in await harness.ended([late], patience_s=LATE_S)] == [Phase.SUCCEEDED]
