"""A team moves from one cluster to another under load, and notices nothing: `muster cluster drain old --to new`."""

import json
from pathlib import Path

import pytest

from federated_house import open_federation
from living_stack import command, job
from muster.schemas.job import Phase
from waiting import until_async

OLD, NEW = "old", "new"
OLD_FIRST = {"policy": {"rules": [{"name": "all", "clusters": [{"cluster": OLD}, {"cluster": NEW}]}]}}
GPUS = 8  # a node each
LATE_S = 120.0

pytestmark = pytest.mark.timeout(400)


async def test_running_jobs_finish_where_they_are_and_the_others_go_over_with_their_ids_and_age(tmp_path: Path) -> None:
    async with open_federation(tmp_path / "state", OLD, NEW, nodes=3, federation=OLD_FIRST) as house:
        muster, state = house.muster, house.settings.state_dir
        long = [await muster.submit(job(f"long-{n}", gpus=GPUS, run_s=12.0)) for n in range(3)]
        for one in long:
            await house.job_that(one.id, lambda view: view.phase is Phase.RUNNING)
        waiting = [await muster.submit(job(f"waiting-{n}", gpus=GPUS, run_s=0.5)) for n in range(12)]
        before = [await house.job_that(one.id, lambda view: view.phase is Phase.QUEUED) for one in waiting]
        assert {view.cluster for view in before} == {OLD}

        await command(state, "cluster", "drain", OLD, "--to", NEW, "--reason", "its lease ends")
        during = [await muster.submit(job(f"during-{n}", gpus=GPUS, run_s=0.5)) for n in range(6)]

        finished = await house.ended([one.id for one in long], patience_s=LATE_S)
        assert [(view.phase, view.cluster, view.attempt) for view in finished] == [(Phase.SUCCEEDED, OLD, 1)] * 3
        moved = await house.ended([one.id for one in (*waiting, *during)], patience_s=LATE_S)
        assert {(view.phase, view.cluster) for view in moved} == {(Phase.SUCCEEDED, NEW)}
        ages = {view.id: view.submitted_at for view in moved}
        assert [ages[view.id] for view in before] == [view.submitted_at for view in before]

        async def is_drained() -> bool:
            listed = json.loads(await command(state, "cluster", "list", "-o", "json"))
            return "drained" in json.dumps(listed)

        await until_async(is_drained)
        assert not [fact for fact in await house.at_cell(OLD) if fact.name == "stop-requested"]
        assert await house.violations_everywhere([one.id for one in (*long, *waiting, *during)]) == []
