"""A team moves from one cluster to another under load, and notices nothing: the story of `muster demo transition`."""

from pathlib import Path

import pytest

from kit.stack.federated import open_federation
from muster.schemas.job import Phase
from muster_tools.demo import transition
from muster_tools.demo.transition import FEDERATION, LONG_JOBS, NEW, NODES, OLD

pytestmark = pytest.mark.timeout(600)


async def test_a_team_that_goes_on_submitting_moves_over_and_notices_nothing(tmp_path: Path) -> None:
    async with open_federation(tmp_path / "state", OLD, NEW, nodes=NODES, federation=FEDERATION) as harness:
        found = await transition.play(harness.muster, harness.settings.state_dir)
        assert found.problem == ""
        assert found.stayed >= LONG_JOBS, "what runs finishes where it is"
        assert found.straight > 0, "and the team went on submitting"
        jobs = await harness.muster.list(team=transition.TEAM, limit=500)
        assert len(jobs) == found.jobs == found.stayed + found.moved + found.straight
        assert {job.phase for job in jobs} == {Phase.SUCCEEDED}
        assert await harness.violations_everywhere([job.id for job in jobs]) == []
