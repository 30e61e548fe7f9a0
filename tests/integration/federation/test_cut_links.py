"""The link between a cluster and the centre is cut for a while, in both directions: each goes on, and both catch up."""

from pathlib import Path

import pytest

from kit.stack.federated import job_for, open_federation, routed_by_label
from kit.stack.living import job
from kit.waiting import until_async
from muster.schemas.job import Phase

CLUSTERS = ("east", "west")
LINK_S_MAX = 240.0
"""From a link that is whole again to a cluster that caught up: brokers ask again after ever longer pauses."""

pytestmark = pytest.mark.timeout(900)


async def test_a_cluster_goes_on_while_its_link_is_cut_and_no_job_is_lost_or_run_twice(tmp_path: Path) -> None:
    async with open_federation(tmp_path / "state", *CLUSTERS, federation=routed_by_label(*CLUSTERS)) as harness:
        running = [(await harness.muster.submit(job(f"before-{n}", run_s=2.0))).id for n in range(6)]
        for job_id in running:
            await harness.job_that(job_id, lambda view: view.phase is Phase.RUNNING)

        harness.links["east"].cut()
        waiting = [(await harness.muster.submit(job(f"during-{n}"))).id for n in range(6)]
        beside = [(await harness.muster.submit(job_for("west", f"beside-{n}"))).id for n in range(6)]

        async def have_ended_there() -> bool:
            ended = {fact.subject_id for fact in await harness.at_cell("east") if fact.name == Phase.SUCCEEDED.value}
            return ended >= set(running)

        await until_async(have_ended_there, patience_s=LINK_S_MAX)
        assert {view.cluster for view in await harness.ended(beside, patience_s=LINK_S_MAX)} == {"west"}
        for job_id in (*running, *waiting):
            assert not (await harness.muster.get(job_id)).phase.is_terminal, "the centre cannot know"

        harness.links["east"].restore()
        ended = await harness.ended([*running, *waiting], patience_s=LINK_S_MAX)
        assert {(view.phase, view.cluster) for view in ended} == {(Phase.SUCCEEDED, "east")}
        assert await harness.violations_everywhere([*running, *waiting, *beside]) == []


async def test_links_that_come_and_go_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    async with open_federation(tmp_path / "state", *CLUSTERS, federation=routed_by_label(*CLUSTERS)) as harness:
        accepted: list[str] = []
        for number in range(60):
            spec = job_for(CLUSTERS[number % 2], f"job-{number}", run_s=0.2)
            accepted.append((await harness.muster.submit(spec)).id)
            link = harness.links["west" if number % 4 < 2 else "east"]
            if number % 10 == 0:
                link.cut()
            elif number % 10 == 5:
                for one in harness.links.values():
                    one.restore()
        for link in harness.links.values():
            link.restore()
        ended = await harness.ended(accepted, patience_s=LINK_S_MAX)
        assert {view.phase for view in ended} == {Phase.SUCCEEDED}
        assert await harness.violations_everywhere(accepted) == []
