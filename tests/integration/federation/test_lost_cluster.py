"""A cluster is out of reach for so long, during a surge, that its jobs are given to another; then it comes back."""

from pathlib import Path

import pytest

from kit.stack.federated import Federation, open_federation
from kit.stack.living import job
from kit.waiting import until_async
from muster.core.fact import Fact
from muster.schemas.job import Phase

CLUSTERS = ("east", "west")
EAST_FIRST = {
    "lost_after_s": 16.0,
    "margin_s": 5.0,
    "heartbeat_s": 0.5,
    "policy": {"rules": [{"name": "all", "clusters": [{"cluster": name} for name in CLUSTERS]}]},
}
BEFORE, DURING = 6, 10
"""Jobs that run when the link is cut, and jobs that come while it is, until the cluster is given up."""
RUN_S = 26.0
"""Longer than a cluster may run jobs that nobody hears of (11 s), by what a slow machine takes from their start to the
cut. What ends unheard before, runs anew elsewhere: nobody can know, and whoever wants it otherwise pins the job."""
LATE_S = 240.0
"""From a link that is whole again to everything told, on a busy machine."""

pytestmark = pytest.mark.timeout(900)


async def of_cluster(harness: Federation, cluster: str, name: str) -> list[Fact]:
    """What the federation said of a cluster."""
    facts = await harness.federation_facts()
    return [fact for fact in facts if fact.kind == "cluster" and fact.subject_id == cluster and fact.name == name]


async def test_no_job_is_lost_and_none_runs_twice_when_a_cluster_is_given_up_in_a_surge(tmp_path: Path) -> None:
    async with open_federation(tmp_path / "state", *CLUSTERS, nodes=4, federation=EAST_FIRST) as harness:
        pinned = (await harness.muster.submit(job("pinned", gpus=8, run_s=2 * RUN_S, pin=True))).id
        jobs = [(await harness.muster.submit(job(f"job-{n}", gpus=4, run_s=RUN_S))).id for n in range(BEFORE)]
        for job_id in (pinned, *jobs):
            await harness.job_that(job_id, lambda view: view.phase is Phase.RUNNING)

        harness.links["east"].cut()
        surge = (job(f"job-{n}", gpus=4, run_s=RUN_S) for n in range(BEFORE, BEFORE + DURING))
        jobs += [(await harness.muster.submit(spec)).id for spec in surge]
        late = [(await harness.muster.submit(job(f"late-{n}", run_s=0.2))).id for n in range(10)]
        await until_async(lambda: of_cluster(harness, "east", "lost"), patience_s=LATE_S)
        assert {view.cluster for view in await harness.ended(late, patience_s=LATE_S)} == {"west"}
        harness.links["east"].restore()

        ended = await harness.ended([*jobs, pinned], patience_s=LATE_S)
        assert {view.phase for view in ended} == {Phase.SUCCEEDED}
        assert ended[-1].cluster == "east", "a pinned job runs through the outage"
        assert "west" in {view.cluster for view in ended[:-1]}
        await until_async(lambda: of_cluster(harness, "east", "returned"), patience_s=LATE_S)
        assert await harness.violations_everywhere([*jobs, *late, pinned]) == []
