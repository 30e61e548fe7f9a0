"""A centre and two cells on brokers of their own: jobs go where the rules say, and everybody sees the same."""

from pathlib import Path

import pytest

from kit.stack.federated import job_for, open_federation, routed_by_label
from kit.stack.living import command
from muster.core.fact import Fact
from muster.schemas.job import Phase

CLUSTERS = ("east", "west")

pytestmark = pytest.mark.timeout(600)


def said(fact: Fact) -> tuple[object, ...]:
    return fact.id, fact.seq, fact.time, fact.writer, fact.name, fact.payload


async def test_jobs_run_where_the_rules_say_and_the_centre_has_every_clusters_log(tmp_path: Path) -> None:
    async with open_federation(tmp_path / "state", *CLUSTERS, federation=routed_by_label(*CLUSTERS)) as harness:
        ids = [await harness.muster.submit(job_for(CLUSTERS[n % 2], f"job-{n}")) for n in range(8)]
        ended = await harness.ended([accepted.id for accepted in ids])
        assert {view.phase for view in ended} == {Phase.SUCCEEDED}
        assert [view.cluster for view in ended] == ["east", "west"] * 4
        assert all(node.startswith(f"{view.cluster}-") for view in ended for node in view.nodes)

        for cluster in CLUSTERS:
            written = await harness.at_cell(cluster)
            copied = await harness.copied(cluster, up_to=written[-1].seq)
            assert [said(fact) for fact in copied[: len(written)]] == [said(fact) for fact in written]

        table = await command(harness.settings.state_dir, "nodes")
        assert "east-gpu-0001" in table
        assert "west-gpu-0001" in table
        assert {view["name"] for view in (await harness.get("/v1/clusters"))["clusters"]} == set(CLUSTERS)
        only_west = await harness.get("/v1/nodes?cluster=west")
        assert {node["cluster"] for node in only_west["nodes"]} == {"west"}
        assert await harness.violations_everywhere([view.id for view in ended]) == []
